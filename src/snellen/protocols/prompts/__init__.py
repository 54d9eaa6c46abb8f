"""Words to a model: templates are data, rendering is pure."""
