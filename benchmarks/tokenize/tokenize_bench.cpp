// The number of megabytes that one core encodes per second of its time, the best of five rounds: tokenize_bench [TOKENIZER …]
// [--text FILE]. Without arguments it uses the small tokenizers of tests/golden/tokenizers; the text is the mixed text of the
// tests, or a file.

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/data/tokenizers/tokenizer.hpp"
#include "runtime/io/file_system.hpp"
#include "tests/support/mixed_text.hpp"

namespace {

/// Processor seconds of this thread, which other work on the machine hardly affects.
double seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void measure(const std::string& path, const std::string& text) {
  const double opened = seconds();
  const auto tokenizer = millrace::runtime::open_tokenizer(path);
  const double opening = seconds() - opened;
  std::vector<std::int32_t> ids;
  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    ids.clear();
    const double start = seconds();
    // Encoded in parts, as `millrace data tokenize` reads a file.
    constexpr std::size_t part = std::size_t{1} << 20;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at + part), text.size());
      tokenizer->encode_rest(std::string_view(text).substr(at, end - at), ids);
      at = end;
    }
    best = std::min(best, seconds() - start);
  }
  fmt::print("{:<28} {:>8} ids  {:>6.2f} bytes/token  {:>6.1f} MB/s  (opened in {:.0f} ms)\n",
             std::filesystem::path(path).filename().string(), tokenizer->vocabulary(),
             static_cast<double>(text.size()) / static_cast<double>(ids.size()), static_cast<double>(text.size()) / best / 1e6,
             opening * 1e3);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> paths(argv + 1, argv + argc);
  std::string text;
  const auto option = std::find(paths.begin(), paths.end(), "--text");
  if (option != paths.end() && option + 1 != paths.end()) {
    text = millrace::runtime::read_text_file(*(option + 1), std::uint64_t{1} << 32, millrace::ExitCode::data);
    paths.erase(option, option + 2);
  } else {
    text = millrace::tests::mixed_text(std::size_t{5} << 20, 2, false);
  }
  if (paths.empty()) {
    for (const auto& name : millrace::runtime::list_directory(MILLRACE_SOURCE_DIR "/tests/golden/tokenizers")) {
      if (!name.ends_with(".txt")) paths.push_back(MILLRACE_SOURCE_DIR "/tests/golden/tokenizers/" + name);
    }
  }
  for (const auto& path : paths) measure(path, text);
}
