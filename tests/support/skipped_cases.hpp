#pragma once

namespace millrace::tests {

/// Runs all tests and then prints a line "skipped: Suite.Case: sentence" for every case that was skipped: CTest's last lines gather them
/// (tests/support/skipped_cases.py). Returns 77, which CTest shows as skipped, where cases were skipped and no case ran.
[[nodiscard]] int run_all_tests();

}  // namespace millrace::tests
