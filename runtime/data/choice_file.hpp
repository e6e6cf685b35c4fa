#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "runtime/data/mapped_file.hpp"

namespace millrace::runtime {

/// A multiple-choice evaluation as llm.c keeps it (HellaSwag and its like): contexts, each with completions of which one is right. 1024
/// bytes of header (256 x i32: 20240522, 1, examples, bytes of the longest one), then for each example 16-bit numbers: 65535, its bytes,
/// its index, the right completion, completions, then the tokens of the context and of each completion, their number before them.
/// Little-endian. Immutable once open: const functions from any thread.
class ChoiceFile {
 public:
  /// A completion behind its context, in numbers of 16 bits from the file's begin.
  struct Completion {
    std::size_t context = 0, context_tokens = 0;
    std::size_t tokens = 0, count = 0;
    [[nodiscard]] std::size_t length() const noexcept { return context_tokens + count; }
  };
  struct Example {
    std::size_t first = 0, count = 0;  // of completions()
    std::size_t right = 0;             // 0 … count − 1
  };

  /// Reads it through once: every length, every token. Errors: Error(data) naming the path, the example, what was found and wanted; a
  /// context or completion without tokens is one.
  ChoiceFile(const std::filesystem::path& path, std::int64_t vocabulary);

  [[nodiscard]] const std::vector<Example>& examples() const noexcept { return examples_; }
  [[nodiscard]] const std::vector<Completion>& completions() const noexcept { return completions_; }
  /// Tokens of the longest context with a completion.
  [[nodiscard]] std::size_t longest() const noexcept { return longest_; }
  /// Context and completion, completion.length() tokens.
  void read(const Completion& completion, std::span<std::int32_t> tokens) const;

 private:
  class Reader;
  MappedFile file_;
  std::vector<Example> examples_;
  std::vector<Completion> completions_;
  std::size_t longest_ = 0;
};

}  // namespace millrace::runtime
