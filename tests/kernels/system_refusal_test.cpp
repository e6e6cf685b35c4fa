#include "kernels/base/system_refusal.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

namespace millrace::tests {
namespace {

bool has(const Error& error, const std::string& part) { return std::string(error.what()).find(part) != std::string::npos; }

TEST(SystemRefusal, AnErrorStaysWhatItIs) {
  const auto error = as_error(Error(ExitCode::data, "[runtime.data] tokens.bin is empty"), "actors.rank");
  EXPECT_EQ(error.code(), ExitCode::data);
  EXPECT_STREQ(error.what(), "[runtime.data] tokens.bin is empty");
}

TEST(SystemRefusal, RefusedMemoryAndThreadsHaveCodeMemory) {
  const auto memory = as_error(std::bad_alloc(), "actors.rank");
  EXPECT_EQ(memory.code(), ExitCode::memory);
  EXPECT_TRUE(has(memory, "[actors.rank] the system refused memory to this process")) << memory.what();
  EXPECT_STREQ(as_error(std::system_error(ENOMEM, std::generic_category()), "actors.rank").what(), memory.what()) << "of a file, say";
  const auto thread = as_error(std::system_error(EAGAIN, std::generic_category()), "actors.rank");
  EXPECT_EQ(thread.code(), ExitCode::memory);
  EXPECT_TRUE(has(thread, "[actors.rank] the system refused a thread: ")) << thread.what();
  EXPECT_TRUE(has(thread, "pids.max")) << thread.what();
}

TEST(SystemRefusal, OtherErrorsAreInternal) {
  const auto other = as_error(std::out_of_range("at 7"), "actors.rank");
  EXPECT_EQ(other.code(), ExitCode::internal);
  EXPECT_STREQ(other.what(), "[actors.rank] at 7");
  EXPECT_EQ(as_error(std::system_error(ENOENT, std::generic_category()), "actors.rank").code(), ExitCode::internal);
}

TEST(SystemRefusal, ThreadsThatAllStartAreNoError) { EXPECT_NO_THROW(check_threads_start(9, "actors.pipeline", "the actor system")); }

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // both reserve more addresses than any limit would leave

/// In a process of its own: limits its address space to what it uses and 64 MiB, which is less than 100 stacks.
void start_with_little_address_space(int threads) {
  long pages = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr || std::fscanf(file, "%ld", &pages) != 1) std::_Exit(1);
  std::fclose(file);
  const auto bytes = static_cast<rlim_t>(pages) * 4096 + (64U << 20);
  const rlimit limit{bytes, bytes};
  setrlimit(RLIMIT_AS, &limit);
  try {
    check_threads_start(threads, "actors.pipeline", "the actor system");
  } catch (const Error& error) {
    std::fputs(error.what(), stderr);
    std::_Exit(static_cast<int>(error.code()));
  }
  std::_Exit(0);
}

TEST(SystemRefusal, ThreadsThatDoNotAllStartAreNamedWithTheLimit) {
  EXPECT_EXIT(start_with_little_address_space(100), testing::ExitedWithCode(8),
              "the system refused thread [0-9]+ of the 100 that the actor system needs: its address space is limited to");
}

#endif

}  // namespace
}  // namespace millrace::tests
