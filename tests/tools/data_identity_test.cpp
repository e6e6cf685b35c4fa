// Which data a run holds out, and that it resumes only with the same bytes.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "cluster/topology.hpp"
#include "kernels/base/check.hpp"
#include "runtime/checkpoint/checkpoint_reader.hpp"
#include "runtime/io/file_system.hpp"
#include "tests/support/stories.hpp"
#include "tests/tools/run_command.hpp"
#include "tests/tools/text.hpp"

namespace millrace::tests {
namespace {

class DataIdentity : public ::testing::Test {
 protected:
  DataIdentity() { write_stories(folder_, 40); }

  /// The arguments for four steps of the smallest model, on one rank, with a checkpoint after two.
  [[nodiscard]] Words words(const Words& more = {}) const {
    return joined(
        {"train", "configs/runs/tiny.toml", "run.directory=" + folder_ / "run", "data.text=" + folder_ / "text", "train.steps=4",
         "train.warmup_steps=1", "train.sequence=32", "train.batch=1", "train.threads=1", "checkpoint.every=2", "evaluate.batches=0"},
        more);
  }
  [[nodiscard]] CommandResult train(const Words& more = {}) const { return run_millrace(words(more)); }
  [[nodiscard]] std::string state(const std::string& directory) const { return run_millrace({"ckpt", "hash", directory}).out; }
  [[nodiscard]] std::string record(const std::string& directory) const { return directory + "/data/" + cluster::host_name() + ".txt"; }
  /// Removes the last checkpoint.
  void go_back(const std::string& directory) const { std::filesystem::remove_all(directory + "/checkpoints/step-00000004"); }

  /// Changes one byte and nothing else that a program can control: size and modification time are kept.
  void flip(const std::string& path) const {
    struct stat status {};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(5);
    const auto byte = static_cast<char>(file.get() ^ 1);
    file.seekp(5);
    file.put(byte);
    file.close();
    const timespec times[] = {status.st_atim, status.st_mtim};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }

  /// Converts the checkpoints to an old form, which had neither hashes of the data nor a split of a single file.
  void make_old(const std::string& directory, const std::string& held_out) const {
    for (const auto& entry : std::filesystem::directory_iterator(directory + "/checkpoints")) {
      const auto folder = entry.path().string();
      auto manifest = runtime::CheckpointReader(folder).manifest();
      EXPECT_EQ(manifest.meta.identity.erase("data.content"), 1U);
      manifest.meta.identity["data.held_out"] = held_out;
      const auto text = manifest.text();
      runtime::write_text_file(folder + "/" + runtime::manifest_name, text);
      runtime::write_text_file(folder + "/" + runtime::commit_name,
                               runtime::Commit{manifest.meta.step, manifest.epoch, text.size(), runtime::hash_of(text)}.text());
    }
    std::filesystem::remove_all(directory + "/data");
    auto description = read_file(directory + "/run.toml");
    const std::string key = "data.held_out = ";
    const auto value = description.find(key) + key.size();
    description.replace(value, description.find('\n', value) - value, held_out);
    runtime::write_text_file(directory + "/run.toml", description);
  }

  TemporaryFolder folder_;
};

// -- content ------------------------------------------------------------------------------------------------------------------------------

TEST_F(DataIdentity, AChangedByteIsAnotherRun) {
  ASSERT_EQ(train().code, 0);
  const auto before = state(folder_ / "run");
  const auto known = read_file(record(folder_ / "run"));
  const auto changed = folder_ / "text/3.txt";
  flip(changed);
  flip(folder_ / "text/7.txt");
  const Words parts{"step-00000004 belongs to another run: " + changed + ": its content has the hash ", ", expected ",
                    "and 1 more file differs"};
  expect_failure(train(), ExitCode::checkpoint, parts);
  EXPECT_EQ(read_file(record(folder_ / "run")), known) << "what is expected must not become what was found";
  expect_failure(train(), ExitCode::checkpoint, parts);
  expect_failure(run_millrace({"replay", folder_ / "run", "--step", "4"}), ExitCode::checkpoint, {changed});
  expect_failure(run_millrace({"replay", folder_ / "run", "--step", "1"}), ExitCode::checkpoint, {changed});  // from the beginning
  auto debug = words({"--checkpoint", folder_ / "run/checkpoints/step-00000002"});
  debug.front() = "debug";
  expect_failure(run_millrace(debug), ExitCode::checkpoint, {changed});
  std::filesystem::remove_all(folder_ / "run/data");
  expect_failure(train(), ExitCode::checkpoint, {"the content of the data (", " and 11 more files) has the hash ", ", expected "});

  flip(changed);
  flip(folder_ / "text/7.txt");
  std::filesystem::rename(folder_ / "text", folder_ / "moved");
  go_back(folder_ / "run");
  const auto again = train({"data.text=" + folder_ / "moved"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(state(folder_ / "run"), before);
}

TEST_F(DataIdentity, AnAddedAndAMissingFileAreNamed) {
  ASSERT_EQ(train().code, 0);
  std::filesystem::rename(folder_ / "text/3.txt", folder_ / "text/new.txt");
  const Words parts{
      "belongs to another run: the data have files that the run did not read: new.txt; the data lack files that the run read: 3.txt"};
  expect_failure(train(), ExitCode::checkpoint, parts);
  std::filesystem::rename(folder_ / "text/new.txt", folder_ / "text/3.txt");
  EXPECT_EQ(train().code, 0);
}

TEST_F(DataIdentity, AFileThatGrewOrShrankIsNamedWithItsSizes) {
  ASSERT_EQ(train().code, 0);
  const auto grown = folder_ / "text/3.txt", shrunk = folder_ / "text/5.txt";
  const auto size = std::filesystem::file_size(grown), other = std::filesystem::file_size(shrunk);
  std::ofstream(grown, std::ios::app) << "the end";
  std::filesystem::resize_file(shrunk, other - 2);
  folder_.write("text/new.txt", "one more");
  const auto changed = fmt::format(
      "{} grew from {} to {} bytes, {} shrank from {} to {} bytes; the data have files that the run did not "
      "read: new.txt",
      grown, size, size + 7, shrunk, other, other - 2);
  const auto refused = train();
  expect_failure(refused, ExitCode::checkpoint,
                 {"step-00000004 belongs to another run: " + changed + ". Use the old data, or another run.directory\n"});
  // Beside another key that differs, both are said.
  expect_failure(train({"train.seed=7"}), ExitCode::checkpoint, {"train.seed was ", "run.directory. Its data differ too: " + changed});
  // Without the record of the files, that is said.
  std::filesystem::remove_all(folder_ / "run/data");
  expect_failure(train(), ExitCode::checkpoint,
                 {"the data have other files, sizes or numbers of tokens, and no record", "(their hash was "});
}

TEST_F(DataIdentity, AKeyThatDividesTheSameFilesIsNamedAlone) {
  ASSERT_EQ(train().code, 0);
  const auto refused = train({"data.held_out=5"});
  expect_failure(refused, ExitCode::checkpoint, {"data.held_out was 10, now 5. Use the old values, or another run.directory\n"});
}

TEST_F(DataIdentity, AnUnchangedFileIsNotReadAgain) {
  // Files of the source tree, since those were not written just now.
  const auto other = [&](const Words& more = {}) { return train(joined({"data.text=docs", "data.suffixes=.md"}, more)); };
  ASSERT_EQ(other().code, 0);
  const auto path = record(folder_ / "run");
  auto text = read_file(path);
  ASSERT_FALSE(text.empty());
  expect_parts(text, {" words.md\n"});
  EXPECT_EQ(other().code, 0);
  // A recorded hash that is not that of the bytes, to show whether it is reused.
  text[0] = text[0] == '0' ? '1' : '0';
  runtime::write_text_file(path, text);
  expect_failure(other(), ExitCode::checkpoint, {"step-00000004 belongs to another run: ", " has the hash "});
  std::filesystem::remove(path);
  EXPECT_EQ(other().code, 0);
}

TEST_F(DataIdentity, HostsWithOtherBytesDoNotAgree) {
  // Two processes that each act as the first of a host, in folders of their own, where the same name refers to two files.
  for (const std::string host : {"one", "two"})
    for (const std::string file : {"a", "b", "c"}) folder_.write(host + "/text/" + file, std::string(3000, file[0]));
  const auto train_on_both = [&](const Words& second = {}) {
    std::string line = MPIEXEC " --allow-run-as-root --oversubscribe --bind-to none";
    for (const std::string host : {"one", "two"}) {
      line += (host == "one" ? " " : " : ") + std::string("-np 1 --wdir ") + folder_ / host +
              " env OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1 " + build_path("millrace");
      for (const auto& word : joined(words({"data.text=text", "pipeline.ranks=2", "data.held_out=3"}), host == "two" ? second : Words{}))
        line += " '" + (word.starts_with("configs/") ? source_path(word) : word) + "'";
    }
    const int status = std::system((line + " > " + folder_ / "out" + " 2> " + folder_ / "err").c_str());
    return CommandResult{WEXITSTATUS(status), read_file(folder_ / "out"), read_file(folder_ / "err")};
  };
  folder_.write("two/text/b", std::string(2999, 'b') + "B");
  expect_failure(train_on_both(), ExitCode::start, {"the content of file 2, b, differs: process 1 on ", " has ", ", process 0 on "});
  folder_.write("two/text/b", std::string(2000, 'b'));
  expect_failure(train_on_both(), ExitCode::start,
                 {"data file 2 differs: process 1 on ", " has b with 2000 bytes, process 0 on ", " has b with 3000 bytes"});
  folder_.write("two/text/d", "d");
  expect_failure(train_on_both(), ExitCode::start, {"the number of data files differs: process 1 on ", "has 4, process 0 on "});
  std::filesystem::remove(folder_ / "two/text/d");
  folder_.write("two/text/b", std::string(3000, 'b'));
  // Keys are compared before files are.
  expect_failure(train_on_both({"train.seed=7"}), ExitCode::start, {"train.seed differs: process 1 on ", " has 7, process 0 on "});
  const auto run = train_on_both();
  EXPECT_EQ(run.code, 0) << run.err;
}

TEST_F(DataIdentity, ACheckpointWithoutHashesIsResumed) {
  ASSERT_EQ(train().code, 0);
  const auto before = state(folder_ / "run");
  make_old(folder_ / "run", "10");
  go_back(folder_ / "run");
  const auto again = train();
  EXPECT_EQ(again.code, 0) << again.err;
  expect_parts(again.err, {"step-00000002 was written without hashes of the data: their names and sizes were compared"});
  EXPECT_EQ(state(folder_ / "run"), before);
  flip(folder_ / "text/3.txt");
  expect_failure(train(), ExitCode::checkpoint, {"step-00000004", folder_ / "text/3.txt"});
}

// -- held out -----------------------------------------------------------------------------------------------------------------------------

TEST_F(DataIdentity, TheLastPartOfASingleFileIsHeldOut) {
  const auto single = "data.text=" + folder_ / "text/0.txt";
  const auto run = train({single, "evaluate.every=2"});
  ASSERT_EQ(run.code, 0) << run.err;
  expect_parts(run.out, {"held out  the last ", "(10.0 %), cut in its only document | ", "evaluation after step 2 | held-out loss ",
                         "evaluation after step 4 | held-out loss "});
  const auto metrics = read_file(folder_ / "run/metrics.jsonl");
  const std::string field = "\"evaluation_loss_hex\":\"";
  const auto at = metrics.rfind(field) + field.size();
  const auto loss = metrics.substr(at, metrics.find('"', at) - at);
  for (const Words& more : {Words{}, Words{single, "data.held_out=10"}}) {
    const auto measured =
        run_millrace(joined({"eval", "--model", folder_ / "run", "--json", "--threads", "1", "--sequence", "32", "--batch", "1"}, more));
    EXPECT_EQ(measured.code, 0) << measured.err;
    expect_parts(measured.out, {"\"loss_hex\":\"" + loss + "\""});
    expect_parts(measured.err, {"tokens in the last "});
  }
  auto inspect = words({single});
  inspect.front() = "inspect";
  expect_parts(run_millrace(inspect).out, {"held out  the last ", "(10.0 %), cut in its only document | "});
}

TEST_F(DataIdentity, ARunWithNothingToEvaluateIsRefused) {
  std::filesystem::remove_all(folder_ / "text");
  for (const char* name : {"a", "b"}) folder_.write(std::string("text/") + name, std::string(5000, *name));
  expect_failure(train({"evaluate.every=2"}), ExitCode::config,
                 {"evaluate.every = 2, but there is nothing to evaluate: data.held_out = 10 takes every 10th file, but "
                  "there are only 2"});
  const auto run = train();
  EXPECT_EQ(run.code, 0) << run.err;
  expect_parts(run.out, {"held out  nothing: data.held_out = 10 takes every 10th file, but there are only 2\n"});
  expect_parts(run.err, {"warning: nothing is evaluated: data.held_out = 10 takes every 10th file, but there are only 2; "
                         "name files with data.validation, or choose another data.held_out"});
  const auto meant = train({"data.held_out=0", "run.directory=" + folder_ / "meant"});
  EXPECT_EQ(meant.err.find("nothing is evaluated"), std::string::npos) << meant.err;
  // The held-out documents have a single token each, so there is no next token.
  folder_.write("text/b", "");
  std::string tokens(400, '\1');
  for (std::size_t i = 1; i < tokens.size(); i += 2) tokens[i] = '\0';
  std::string separators(8, '\0');
  for (std::size_t i = 0; i < separators.size(); i += 2) separators[i] = '\2';
  folder_.write("tokens/a.bin", tokens), folder_.write("tokens/b.bin", separators);
  const Words of_tokens{"data.text=",      "data.tokens=" + folder_ / "tokens", "data.separator=2", "data.held_out=2",
                        "sample.tokens=0", "run.directory=" + folder_ / "other"};
  expect_failure(train(joined(of_tokens, {"evaluate.every=2"})), ExitCode::config,
                 {"held out is 1 file with 4 tokens, none of which has a next token in its document"});
  const auto silent = train(of_tokens);
  EXPECT_EQ(silent.code, 0) << silent.err;
  EXPECT_EQ(silent.out.find("held-out loss"), std::string::npos) << silent.out;
}

TEST_F(DataIdentity, ARunThatHeldNothingOutGoesOnLikeThat) {
  const auto single = "data.text=" + folder_ / "text/0.txt";
  ASSERT_EQ(train({single, "data.held_out=0"}).code, 0);
  const auto before = state(folder_ / "run");
  make_old(folder_ / "run", "10");
  go_back(folder_ / "run");
  const auto replay = run_millrace({"replay", folder_ / "run", "--step", "2", single, "data.held_out=10"});
  EXPECT_EQ(replay.code, 0) << replay.out << replay.err;
  for (int start = 0; start < 2; ++start) {
    const auto again = train({single, "evaluate.every=2"});
    EXPECT_EQ(again.code, 0) << again.err;
    expect_parts(again.out, {"held out  nothing, as since the run's start\n"});
    expect_parts(again.err, {"evaluate.every = 2, but there is nothing to evaluate"});
    EXPECT_EQ(state(folder_ / "run"), before);
    go_back(folder_ / "run");
  }
  expect_failure(run_millrace({"eval", "--model", folder_ / "run"}), ExitCode::usage, {"held nothing out"});
}

}  // namespace
}  // namespace millrace::tests
