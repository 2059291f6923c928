"""The server that receives runs of other machines: tokens, links, limits, retention."""
