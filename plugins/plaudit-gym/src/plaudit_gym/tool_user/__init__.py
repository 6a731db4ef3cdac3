"""A tiny base model that sometimes uses a calculator, and products that it cannot work out without one."""
