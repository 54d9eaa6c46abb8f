"""Forms of other tools: `exports` writes them, `predictions` reads replies that other toolkits wrote."""
