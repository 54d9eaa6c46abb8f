"""LVLM-eHub (Xu et al. 2023): its rules for reading and scoring replies."""
