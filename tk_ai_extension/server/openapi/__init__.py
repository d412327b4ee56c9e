"""The OpenAPI description of the routes, by what they are for."""
