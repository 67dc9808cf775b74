"""What the app's pages are put together from: choices, forms, jobs, errors. Uses Streamlit."""
