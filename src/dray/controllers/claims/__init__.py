"""The ResourceClaim controller: makes claims from templates, reserves them for bound pods, and releases them."""
