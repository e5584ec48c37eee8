"""Chapter 7 of the book: data security by access control, data protection and connectivity."""
