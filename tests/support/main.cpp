#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/skipped_cases.hpp"

// The main() of every test program that does not have its own.
int main(int count, char** words) {
  ::testing::InitGoogleTest(&count, words);
  setenv("MILLRACE_LOG_EVERY", "1", 0);  // tests wait for the lines of single steps
  return millrace::tests::run_all_tests();
}
