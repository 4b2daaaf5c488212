"""Evidence in a bucket: sealed segments as objects under Object Lock. Needs the extra ``s3`` (obstore and boto3)."""
