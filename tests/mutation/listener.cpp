// Linked into every test of the scratch copy that tools/mutate.py builds: writes which mutants each test case executes, and its
// duration, to the file named by MILLRACE_MUTANT_CASES, one line per case: name, milliseconds, identifiers. In a test of several
// processes the first one writes.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/mutation/mutant.hpp"

namespace millrace::mutation {
namespace {

class Listener : public testing::EmptyTestEventListener {
 public:
  explicit Listener(std::FILE* file) : file_(file) {}

  // Code that was executed before the first case (static objects, a fixture of a whole suite) counts for the first case.
  void OnTestEnd(const testing::TestInfo& test) override {
    std::fprintf(file_, "%s.%s %s %lld", test.test_suite_name(), test.name(), test.result()->Failed() ? "failed" : "passed",
                 static_cast<long long>(test.result()->elapsed_time()));
    for (int id = 1; id < max_mutants; ++id)
      if (reached[id] != 0) std::fprintf(file_, " %d", id);
    std::fprintf(file_, "\n");
    std::fflush(file_);
    std::memset(reached, 0, max_mutants);
  }

 private:
  std::FILE* file_;
};

const bool listening = [] {
  const char* path = std::getenv("MILLRACE_MUTANT_CASES");
  const char* process = std::getenv("OMPI_COMM_WORLD_RANK");
  if (path == nullptr || reached == nullptr || (process != nullptr && std::strcmp(process, "0") != 0)) return false;
  if (std::FILE* file = std::fopen(path, "w")) testing::UnitTest::GetInstance()->listeners().Append(new Listener(file));
  return true;
}();

}  // namespace
}  // namespace millrace::mutation
