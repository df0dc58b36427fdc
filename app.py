"""The entry point of the CDK: `cdk deploy`, or `python app.py` with CDK_OUTDIR set.

Context: `environment` (development, production) and `stack` (the stack's name, by default tidewheel).
"""

from infra.application import build_app

if __name__ == "__main__":
    build_app().synth()
