"""Names of Ray: the finder behind `import ray`, and a sentence for each name that zray does not have.

ray_imports, ray_metadata              `import ray` as zray
ray_path                               folder on the path of programs that run as programs of Ray
absent, absent_names, absent_rllib     names and options without a counterpart, with their replacements
"""
