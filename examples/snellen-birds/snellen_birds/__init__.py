"""Questions about birds: what another package can bring to Snellen, one small thing of each kind."""
