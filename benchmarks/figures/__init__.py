"""The paper's system figures: one file per figure, and the report that `zray reproduce` writes of them."""
