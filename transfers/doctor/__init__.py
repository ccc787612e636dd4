"""The link doctor: what one connection and the link can do, why, and what would help. Plain Python."""
