"""zray's figures: workloads that run alike on zray and Ray, beside the floors of the machine."""
