#include "runtime/data/mapped_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "tests/support/expect_error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace millrace::runtime {
namespace {

using tests::TemporaryFolder;

TEST(MappedFile, ShowsTheBytesAndGoesAlongWhenMoved) {
  const TemporaryFolder folder;
  MappedFile first(folder.write("f", "abc"));
  const MappedFile second(std::move(first));
  ASSERT_EQ(second.bytes().size(), 3U);
  EXPECT_EQ(static_cast<char>(second.bytes()[2]), 'c');
  EXPECT_EQ(MappedFile(folder.write("empty", "")).bytes().size(), 0U);
}

/// A process that was started without stdin gets 0 for the first file that it opens.
TEST(MappedFile, ClosesDescriptorZeroToo) {
  const TemporaryFolder folder;
  const auto path = folder.write("f", "abc");
  const int kept = dup(0);
  close(0);
  const MappedFile file(path);
  EXPECT_EQ(fcntl(0, F_GETFD), -1) << "the mapping needs no open file";
  EXPECT_EQ(file.bytes().size(), 3U);
  if (kept >= 0) {
    dup2(kept, 0);
    close(kept);
  }
}

TEST(MappedFile, AShortenedFileEndsTheProcessWithItsName) {
  const TemporaryFolder folder;
  const auto path = folder.write("tokens.bin", std::string(100000, 'x'));
  EXPECT_EXIT(
      {
        report_lost_data();
        const MappedFile file(path);
        if (::truncate(path.c_str(), 10) != 0) std::abort();
        volatile auto last = file.bytes().back();
        static_cast<void>(last);
      },
      testing::ExitedWithCode(static_cast<int>(ExitCode::data)), "tokens.bin.*the file was shortened");
}

TEST(MappedFile, OtherBusErrorsStayWhatTheyAre) {
  const TemporaryFolder folder;
  const auto path = folder.write("f", std::string(100000, 'x'));
  EXPECT_EXIT(
      {
        report_lost_data();
        { const MappedFile gone(path); }
        ::raise(SIGBUS);
      },
      testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace millrace::runtime
