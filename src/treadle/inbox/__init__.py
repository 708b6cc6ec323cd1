"""Specs and messages in, finished work out."""
