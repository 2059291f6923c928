"""The tools that coding agents call over the Model Context Protocol."""
