"""The paper, reproduced: every table, both figures and every claim that can be checked, in one report.

    python -m benchmarks.paper --out paper            # minutes; resumable
    python -m benchmarks.paper --quick --out paper    # under two minutes, few replicates

Source: "The RAT: A Unified Bayesian Model for RAG Evaluation".
"""
