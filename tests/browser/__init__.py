"""The browser client in a real Chromium, driven by Playwright."""
