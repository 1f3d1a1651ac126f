"""What others do on the same data: ``make compare ARGS=contexts``. Each contest is a module with a `main`."""
