#pragma once

#include <string>

#include "tests/support/temporary_folder.hpp"
#include "tests/tools/run_command.hpp"
#include "tests/tools/text.hpp"

namespace millrace::tests {

/// A run of four steps on the bytes of eight small files, of which the fourth and the eighth are held out, and its model exported
/// for transformers. Created once per process.
class TrainedRun {
 public:
  static const TrainedRun& get() {
    static const TrainedRun run;
    return run;
  }
  [[nodiscard]] std::string directory() const { return folder_ / "run"; }
  [[nodiscard]] std::string checkpoint() const { return folder_ / "run/checkpoints/step-00000004"; }
  [[nodiscard]] std::string exported() const { return folder_ / "exported"; }
  [[nodiscard]] const TemporaryFolder& folder() const { return folder_; }
  [[nodiscard]] std::string data() const { return folder_ / "data"; }
  /// A .tiktoken file that gives a text the ids of its bytes, and 256 to the end of a document.
  [[nodiscard]] std::string tiktoken() const { return folder_ / "r50k.tiktoken"; }
  /// The last value of a field in metrics.jsonl, as text.
  [[nodiscard]] std::string metric(const std::string& name) const { return metric_in(directory(), name); }
  [[nodiscard]] static std::string metric_in(const std::string& directory, const std::string& name) {
    const auto text = read_file(directory + "/metrics.jsonl");
    const auto at = text.rfind("\"" + name + "\":\"") + name.size() + 4;
    return text.substr(at, text.find('"', at) - at);
  }

 private:
  TrainedRun() {
    const auto text = read_source("docs/words.md");
    for (std::size_t i = 0; i < 8; ++i) folder_.write(fmt::format("data/{}", i), text.substr(i * 500, 1500 + 100 * i));
    const auto trained =
        run_millrace({"train", "configs/runs/tiny.toml", "pipeline.ranks=2", "train.threads=1", "train.steps=4", "train.warmup_steps=1",
                      "data.text=" + data(), "data.held_out=4", "evaluate.batches=0", "sample.tokens=0", "run.directory=" + directory()});
    EXPECT_EQ(trained.code, 0) << trained.err;
    EXPECT_EQ(run_millrace({"ckpt", "export-hf", directory(), exported()}).code, 0);
    std::string lines;
    constexpr const char* digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (std::size_t byte = 0; byte < 256; ++byte) lines += fmt::format("{}{}== {}\n", digits[byte >> 2U], digits[(byte & 3U) << 4U], byte);
    folder_.write("r50k.tiktoken", lines);
  }
  TemporaryFolder folder_;
};

}  // namespace millrace::tests
