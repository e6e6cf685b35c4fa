#include "cluster/host/console.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace millrace::cluster {
namespace {

constexpr auto drain_limit = std::chrono::seconds(20);

class Pipe {
 public:
  Pipe() { EXPECT_EQ(pipe(ends_), 0); }
  ~Pipe() {
    hang_up();
    close(ends_[1]);
  }
  [[nodiscard]] int in() const { return ends_[1]; }
  void hang_up() {
    if (ends_[0] >= 0) close(ends_[0]);
    ends_[0] = -1;
  }
  /// Contains everything that was written until `end`.
  std::string read_until(const std::string& end) {
    std::string text;
    char buffer[4096];
    while (text.find(end) == std::string::npos) {
      const ssize_t got = read(ends_[0], buffer, sizeof buffer);
      if (got <= 0) break;
      text.append(buffer, static_cast<std::size_t>(got));
    }
    return text;
  }

 private:
  int ends_[2] = {-1, -1};
};

TEST(TextWriter, WritesInOrder) {
  Pipe pipe;
  TextWriter writer(pipe.in());
  std::string all;
  for (int line = 0; line < 1000; ++line) {
    all += std::to_string(line) + "\n";
    writer.put(std::to_string(line) + "\n");
  }
  EXPECT_EQ(pipe.read_until("\n999\n"), all);
  EXPECT_TRUE(writer.drain(drain_limit));
  EXPECT_EQ(writer.error(), 0);
}

TEST(TextWriter, WhoPrintsDoesNotWaitForAReaderAndTheDroppedLinesAreCounted) {
  Pipe pipe;
  TextWriter writer(pipe.in(), 200'000);
  const std::string line(999, 'x');
  // more than pipe and queue hold: a blocking writer would never return
  for (int count = 0; count < 1000; ++count) writer.put(line + "\n");
  EXPECT_FALSE(writer.drain(std::chrono::milliseconds(10)));
  const auto text = pipe.read_until("missing here");
  const auto at = text.find('(');
  ASSERT_NE(at, std::string::npos);
  const auto dropped = std::stoul(text.substr(at + 1));
  EXPECT_GT(dropped, 0U);
  EXPECT_EQ(at / 1000 + dropped, 1000U) << "every line is there or counted";
}

TEST(TextWriter, EndsAlthoughNobodyReads) {
  Pipe pipe;
  TextWriter writer(pipe.in());
  for (int count = 0; count < 200; ++count) writer.put(std::string(4096, 'x'));
}

TEST(TextWriter, ReportsOnceThatTheReaderIsGone) {
  Pipe pipe;
  pipe.hang_up();
  int calls = 0;
  TextWriter writer(pipe.in(), TextWriter::default_limit, [&calls](int error) { calls += error == EPIPE ? 1 : 100; });
  for (int line = 0; line < 3; ++line) writer.put("line\n");
  EXPECT_TRUE(writer.drain(drain_limit));
  EXPECT_EQ(writer.error(), EPIPE);
  EXPECT_EQ(calls, 1);
}

TEST(TextWriter, AFullDiskIsAnError) {
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  TextWriter writer(full);
  writer.put("line\n");
  EXPECT_TRUE(writer.drain(drain_limit));
  EXPECT_EQ(writer.error(), ENOSPC);
  close(full);
}

}  // namespace
}  // namespace millrace::cluster
