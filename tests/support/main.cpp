#include <gtest/gtest.h>

#include "tests/support/skipped_cases.hpp"

// The main() of every test program that does not have its own.
int main(int count, char** words) {
  ::testing::InitGoogleTest(&count, words);
  return millrace::tests::run_all_tests();
}
