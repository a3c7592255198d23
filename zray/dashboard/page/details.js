// Details.
