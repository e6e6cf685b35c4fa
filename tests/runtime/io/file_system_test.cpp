#include "runtime/io/file_system.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include <stdexcept>

#include "tests/runtime/io/scratch.hpp"

namespace {
thread_local timespec asked_sleep{};
}

/// Replaces the C library's function in this program: sleep_for calls it. Records the request, then sleeps.
extern "C" int nanosleep(const timespec* request, timespec* rest) {
  asked_sleep = *request;
  errno = clock_nanosleep(CLOCK_MONOTONIC, 0, request, rest);
  return errno == 0 ? 0 : -1;
}

namespace millrace::runtime {
namespace {

using testing::contains;
using testing::error_of;
using testing::fault_at;
using testing::Scratch;
using testing::slurp;

TEST(FileSystem, WritesReadsAndRemoves) {
  const Scratch scratch;
  make_directories(scratch / "a/b");
  {
    auto file = File::create(scratch / "a/b/file");
    file.write("hello ");
    file.write("world");
    file.sync();
    EXPECT_EQ(file.size(), 11U);
  }
  EXPECT_EQ(read_text_file(scratch / "a/b/file", 100, ExitCode::data), "hello world");
  EXPECT_TRUE(contains(error_of(ExitCode::data, [&] { (void)read_text_file(scratch / "a/b/file", 10, ExitCode::data); }), "at most 10"));
  rename_path(scratch / "a/b/file", scratch / "a/c");
  EXPECT_EQ(list_directory(scratch / "a"), (std::vector<std::string>{"b", "c"}));
  std::filesystem::create_symlink("..", scratch / "a/up");
  remove_tree(scratch / "a");
  EXPECT_EQ(kind_of(scratch / "a"), PathKind::missing);
  EXPECT_EQ(kind_of(scratch.path()), PathKind::directory);
}

TEST(FileSystem, NewFoldersAreOnTheDisk) {
  const Scratch scratch;
  std::vector<std::string> synced;
  set_file_hook([&](const FileCall& call) {
    if (call.operation == FileOperation::sync_directory && call.path.starts_with(scratch.path())) synced.emplace_back(call.path);
    return FileFault::none;
  });
  make_directories(scratch / "a/b");
  EXPECT_EQ(synced, (std::vector<std::string>{scratch.path(), scratch / "a"}));
  make_directories(scratch / "a/b");
  EXPECT_EQ(synced.size(), 3U) << "a process that was killed may have made it, and not come to this";
  EXPECT_EQ(synced.back(), scratch / "a");
}

TEST(FileSystem, OthersMayReadWhatItMakesAndNotWrite) {
  const Scratch scratch;
  const mode_t before = umask(0);
  make_directories(scratch / "a/b");
  File::create(scratch / "a/file").write("x");
  File::append(scratch / "a/log").write("x");
  umask(before);
  const auto mode_of = [&](const char* name) {
    struct stat status {};
    EXPECT_EQ(stat((scratch / name).c_str(), &status), 0);
    return status.st_mode & 0777U;
  };
  EXPECT_EQ(mode_of("a"), 0755U);
  EXPECT_EQ(mode_of("a/b"), 0755U);
  EXPECT_EQ(mode_of("a/file"), 0644U);
  EXPECT_EQ(mode_of("a/log"), 0644U);
}

TEST(FileSystem, AFileInTheWayOfAFolderIsNamed) {
  const Scratch scratch;
  testing::spill(scratch / "file", "x");
  const auto refusal = [&](const std::string& path) { return error_of(ExitCode::storage, [&] { make_directories(path); }); };
  EXPECT_TRUE(contains(refusal(scratch / "file"), "making the folder " + scratch / "file" + ": File exists"));
  EXPECT_TRUE(contains(refusal(scratch / "file/below"), "making the folder " + scratch / "file" + ": File exists"));
  std::filesystem::create_symlink("nowhere", scratch / "link");
  EXPECT_TRUE(contains(refusal(scratch / "link"), "making the folder " + scratch / "link" + ": File exists"));
  make_directory(scratch / "folder");
  make_directory(scratch / "folder", true);
  EXPECT_TRUE(contains(error_of(ExitCode::storage, [&] { make_directory(scratch / "folder"); }), "folder: File exists"));
}

/// In a process that was started without stdin, the first file that it opens has descriptor 0.
TEST(FileSystem, DescriptorZeroIsAFileLikeOthers) {
  const Scratch scratch;
  const int kept = dup(0);
  close(0);
  {
    auto file = File::create(scratch / "file");
    file.write("text");
    EXPECT_NE(fcntl(0, F_GETFD), -1);
  }
  EXPECT_EQ(fcntl(0, F_GETFD), -1) << "it was not closed";
  File::append(scratch / "file").write("more");
  EXPECT_EQ(read_text_file(scratch / "file", 8, ExitCode::data), "textmore");
  sync_directory(scratch.path());
  EXPECT_EQ(fcntl(0, F_GETFD), -1);
  if (kept >= 0) {
    dup2(kept, 0);
    close(kept);
  }
}

TEST(FileSystem, AMachineWithoutDescriptorsIsNoMissingFile) {
  const Scratch scratch;
  testing::spill(scratch / "file", "x");
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{0, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  std::vector<std::string> messages;
  const auto keep = [&](const std::function<void()>& action) { messages.push_back(error_of(ExitCode::storage, action)); };
  keep([&] { (void)File::open(scratch / "file", true, ExitCode::data); });
  keep([&] { (void)File::create(scratch / "file"); });
  keep([&] { (void)File::append(scratch / "file"); });
  keep([&] { sync_directory(scratch.path()); });
  keep([&] { (void)list_directory(scratch.path()); });
  setrlimit(RLIMIT_NOFILE, &before);
  const char* words[] = {"opening ", "creating ", "opening ", "opening the folder ", "listing the folder "};
  for (std::size_t call = 0; call < 5; ++call)
    EXPECT_TRUE(contains(messages[call], words[call] + scratch.path()) && contains(messages[call], "Too many open files"))
        << messages[call];
  EXPECT_EQ(slurp(scratch / "file"), "x");
}

TEST(FileSystem, NamesAFileThatCannotBeWritten) {
  const Scratch scratch;
  testing::spill(scratch / "file", "x");
  auto file = File::open(scratch / "file");
  const auto refusal = [&](const std::function<void()>& action) { return error_of(ExitCode::storage, action); };
  const auto text = std::as_bytes(std::span("y", 1));
  EXPECT_TRUE(contains(refusal([&] { file.write(text); }), "writing " + scratch / "file" + ": Bad file descriptor"));
  EXPECT_TRUE(contains(refusal([&] { file.write_at(0, text); }), "writing " + scratch / "file" + ": Bad file descriptor"));
  EXPECT_TRUE(contains(refusal([&] { file.truncate(0); }), "truncating " + scratch / "file" + ": "));
  EXPECT_TRUE(contains(refusal([&] { rename_path(scratch / "a", scratch / "b"); }),
                       "renaming " + scratch / "a" + " to " + scratch / "b" + ": No such file"));
  EXPECT_TRUE(contains(refusal([&] { (void)free_space(scratch / "a"); }), "free space of " + scratch / "a" + ": No such file"));
  std::filesystem::create_symlink("file", scratch / "link");
  EXPECT_TRUE(contains(refusal([&] { (void)File::create(scratch / "link"); }), "creating " + scratch / "link" + ": Too many levels"));
  EXPECT_TRUE(contains(refusal([&] { (void)File::append(scratch / "link"); }), "opening " + scratch / "link" + ": Too many levels"));
  EXPECT_EQ(slurp(scratch / "file"), "x");
}

TEST(FileSystem, AnAssignedFileIsTheOtherAndItsOwnIsClosed) {
  const Scratch scratch;
  auto file = File::create(scratch / "a");
  {
    auto other = File::create(scratch / "b");
    file = std::move(other);
  }
  EXPECT_EQ(file.path(), scratch / "b");
  file.write("text");
  EXPECT_EQ(slurp(scratch / "b"), "text");
  EXPECT_EQ(slurp(scratch / "a"), "");
}

TEST(FileSystem, KindsOfPaths) {
  const Scratch scratch;
  testing::spill(scratch / "file", "x");
  std::filesystem::create_symlink("file", scratch / "link");
  ASSERT_EQ(mkfifo((scratch / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(kind_of(scratch / "file"), PathKind::file);
  EXPECT_EQ(kind_of(scratch / "link"), PathKind::link);
  EXPECT_EQ(kind_of(scratch / "pipe"), PathKind::other);
  EXPECT_EQ(kind_of(scratch / "nothing"), PathKind::missing);
  EXPECT_TRUE(contains(error_of(ExitCode::data, [&] { (void)File::open(scratch / "pipe", true, ExitCode::data); }), "not a file"));
  remove_tree(scratch / "nothing");
  EXPECT_EQ(read_text_file(scratch / "file", 1, ExitCode::data), "x") << "the limit itself is allowed";
}

TEST(FileSystem, CopiesAFileToTheDisk) {
  const Scratch scratch;
  testing::spill(scratch / "from", std::string((std::size_t{4} << 20) + 5, 'x') + "end");
  testing::spill(scratch / "empty", "");
  std::vector<std::string> synced;
  set_file_hook([&](const FileCall& call) {
    if (call.operation == FileOperation::sync) synced.emplace_back(call.path);
    return FileFault::none;
  });
  for (const char* name : {"from", "empty"}) {
    copy_file(scratch / name, scratch / "to");
    EXPECT_EQ(slurp(scratch / "to"), slurp(scratch / name));
  }
  EXPECT_EQ(synced, (std::vector<std::string>{scratch / "to", scratch / "to"}));
}

/// Two descriptors of one file, as in two processes.
TEST(FileSystem, ALockIsOnesAlone) {
  const Scratch scratch;
  // No fault, then a file system without flock: the second call of each try_lock requests a record lock.
  for (const char* faults : {"", "io:op=lock:call=1:enotsup;io:op=lock:call=3:enotsup;io:op=lock:call=5:enotsup"}) {
    set_faults(faults, 0);
    const auto second = File::append(scratch / "lock");
    {
      const auto first = File::append(scratch / "lock");
      EXPECT_TRUE(first.try_lock());
      EXPECT_FALSE(second.try_lock());
    }
    EXPECT_TRUE(second.try_lock()) << "who had it is gone";
  }
}

TEST(FileSystem, WithoutLocksNobodyTakesOne) {
  const Scratch scratch;
  const auto file = File::append(scratch / "lock");
  set_faults("io:op=lock:from=1:enotsup", 0);
  const auto message = error_of(ExitCode::storage, [&] { (void)file.try_lock(); });
  EXPECT_TRUE(contains(message, scratch / "lock") && contains(message, "file system of type 0x") && contains(message, "no file locks"))
      << message;
  set_faults("io:op=lock:call=1:eio", 0);
  EXPECT_TRUE(contains(error_of(ExitCode::storage, [&] { (void)file.try_lock(); }), "locking"));
}

TEST(FileSystem, AWriteThatTakesNothingIsAnError) {
  const Scratch scratch;
  auto file = File::create(scratch / "file");
  file.write("12345678");
  set_file_hook([](const FileCall& call) {
    if (call.number > 100) throw std::runtime_error("asked for ever");
    return call.operation == FileOperation::write ? FileFault::no_progress : FileFault::none;
  });
  EXPECT_TRUE(contains(error_of(ExitCode::storage, [&] { file.write("x"); }), "accepted none of 1 bytes"));
  EXPECT_TRUE(contains(error_of(ExitCode::storage, [&] { file.write_at(2, std::as_bytes(std::span("x", 1))); }), "accepted none"));
  set_file_hook({});
  EXPECT_EQ(slurp(scratch / "file"), "12345678");
}

/// The system takes as many bytes as the limit of a file's size allows, and refuses the rest.
TEST(FileSystem, AWriteThatIsTakenInPartGoesOnWhereItEnded) {
  const Scratch scratch;
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  auto at = File::create(scratch / "at"), behind = File::create(scratch / "behind");
  behind.write("01234");
  const rlimit ten{10, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &ten);
  const auto text = std::as_bytes(std::span("abcdefgh", 8));
  const auto first = error_of(ExitCode::storage, [&] { at.write_at(5, text); });
  const auto second = error_of(ExitCode::storage, [&] { behind.write(text); });
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  EXPECT_TRUE(contains(first, "writing " + scratch / "at" + ": File too large")) << first;
  EXPECT_TRUE(contains(second, "writing " + scratch / "behind" + ": File too large")) << second;
  EXPECT_EQ(slurp(scratch / "at"), std::string(5, '\0') + "abcde");
  EXPECT_EQ(slurp(scratch / "behind"), "01234abcde");
}

TEST(FileSystem, ErrorsNameOperationPathAndReason) {
  const Scratch scratch;
  const auto message = error_of(ExitCode::model, [&] { (void)File::open(scratch / "nothing", true, ExitCode::model); });
  EXPECT_TRUE(contains(message, "opening") && contains(message, "/nothing") && contains(message, "No such file")) << message;
  EXPECT_TRUE(contains(error_of(ExitCode::storage, [&] { remove_file(scratch / "nothing"); }), "removing"));
  EXPECT_TRUE(contains(error_of(ExitCode::data, [&] { (void)File::open(scratch.path(), true, ExitCode::data); }), "not a file"));
  std::filesystem::create_symlink("x", scratch / "link");
  EXPECT_TRUE(contains(error_of(ExitCode::data, [&] { (void)File::open(scratch / "link", false, ExitCode::data); }), "symbolic link"));
}

TEST(FileSystem, AFileCutShortWhileItIsReadIsAnError) {
  const Scratch scratch;
  testing::spill(scratch / "file", std::string(100, 'x'));
  const auto file = File::open(scratch / "file");
  std::filesystem::resize_file(scratch / "file", 50);
  std::vector<std::byte> bytes(100);
  EXPECT_TRUE(contains(error_of(ExitCode::data, [&] { file.read_at(0, bytes, ExitCode::data); }), "ends at byte 50"));
}

TEST(FileSystem, ATextFileIsOldOrNewAtEveryFailure) {
  const Scratch scratch;
  int failures = 0;
  for (const auto fault : {FileFault::io_error, FileFault::no_space}) {
    for (std::uint64_t k = 1; k <= 5; ++k) {
      write_text_file(scratch / "text", "the old one");
      set_file_hook(fault_at(k, fault));
      try {
        write_text_file(scratch / "text", "the new");
      } catch (const Error& error) {
        ++failures;
        EXPECT_TRUE(contains(error.what(), fault == FileFault::no_space ? "No space left" : "Input/output error")) << error.what();
      }
      set_file_hook({});
      EXPECT_EQ(slurp(scratch / "text"), k == 5 ? "the new" : "the old one") << k;  // the fifth call syncs the folder
    }
  }
  EXPECT_EQ(failures, 10);
}

TEST(Fault, AFullDiskLeavesHalfAndAShortWriteIsContinued) {
  const Scratch scratch;
  set_file_hook([](const FileCall& call) { return call.operation == FileOperation::write ? FileFault::no_space : FileFault::none; });
  EXPECT_TRUE(contains(error_of(ExitCode::storage, [&] { File::create(scratch / "a").write("12345678"); }), "writing"));
  EXPECT_EQ(slurp(scratch / "a"), "1234");
  set_file_hook([](const FileCall& call) { return call.operation == FileOperation::write ? FileFault::short_write : FileFault::none; });
  File::create(scratch / "b").write("12345678");
  EXPECT_EQ(slurp(scratch / "b"), "12345678");
  EXPECT_EQ(file_calls(), 5U);  // create, then 4 + 2 + 1 + 1
}

TEST(Fault, TextRulesCountMatchingCallsOfTheirProcess) {
  const Scratch scratch;
  set_faults("io:rank=1:call=1:eio;io:path=second:op=write:call=2:enospc", 0);
  auto first = File::create(scratch / "first");
  auto second = File::create(scratch / "second");
  first.write("x");
  second.write("x");
  first.write("x");
  EXPECT_TRUE(contains(error_of(ExitCode::storage, [&] { second.write("x"); }), "second"));
  second.write("x");
  set_faults("io:from=2:eio", 0);
  first.write("x");
  for (int call = 0; call < 3; ++call) EXPECT_NE(error_of(ExitCode::storage, [&] { first.write("x"); }), "");
}

TEST(Fault, PointsStrikeAtTheirHit) {
  const Scratch scratch;
  set_faults("point=here:hit=2:throw", 0);
  fault_point("here");
  fault_point("there");
  EXPECT_TRUE(contains(error_of(ExitCode::internal, [] { fault_point("here"); }), "here"));
  fault_point("here");
  const auto child = fork();
  if (child == 0) {
    set_faults("point=here:kill", 0);
    fault_point("here");
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 137);
}

TEST(Fault, ADelayStrikesEveryTime) {
  const Scratch scratch;
  set_faults("point=here:delay=20", 0);
  for (int hit = 1; hit <= 3; ++hit) {
    asked_sleep = {};
    fault_point("here");
    EXPECT_EQ(asked_sleep.tv_nsec, 20'000'000);
    EXPECT_EQ(asked_sleep.tv_sec, 0);
    asked_sleep = {};
    fault_point("elsewhere");
    EXPECT_EQ(asked_sleep.tv_nsec, 0);
  }
}

TEST(Fault, RefusesRulesItDoesNotKnow) {
  for (const char* text : {"io", "io:call=x:eio", "io:call=1:explode", "point=a:eio", "eio", "io:op=dance:eio", "io:point=a:kill",
                           "point=a:delay", "io:call=1:delay=5", "io:eio:kill", "call=1"})
    EXPECT_TRUE(error_of(ExitCode::usage, [&] { set_faults(text, 0); }).starts_with("[runtime.fault] '")) << text;
}

TEST(FileSystem, Paths) {
  EXPECT_EQ(join_path("a/", "b"), "a/b");
  EXPECT_EQ(join_path("a", "b"), "a/b");
  EXPECT_EQ(parent_path("a/b"), "a");
  EXPECT_EQ(parent_path("a/b/"), "a");
  EXPECT_EQ(parent_path("b"), ".");
  EXPECT_EQ(parent_path("/b"), "/");
}

}  // namespace
}  // namespace millrace::runtime
