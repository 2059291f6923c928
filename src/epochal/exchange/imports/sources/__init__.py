"""Where runs can only be copied from: servers, and stores that need the tracker's own package."""
