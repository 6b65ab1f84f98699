"""How things are shown: text, pictures, HTML, SARIF, snippets."""
