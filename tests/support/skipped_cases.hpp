#pragma once

namespace millrace::tests {

/// Runs all tests and then prints a line "skipped: Suite.Case: reason" for every skipped case; tests/support/skipped_cases.py
/// collects them at the end of CTest's output. Returns 77, which CTest shows as skipped, if cases were skipped and no case ran.
[[nodiscard]] int run_all_tests();

}  // namespace millrace::tests
