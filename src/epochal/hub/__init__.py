"""The hub: a server that receives runs from other machines and keeps them in a plain folder."""
