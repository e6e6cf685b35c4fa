#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "runtime/data/mapped_file.hpp"

namespace millrace::runtime {

/// A multiple-choice evaluation in llm.c's format (HellaSwag and similar): contexts, each with several completions of which one
/// is right. The file has a header of 1024 bytes (256 x i32: 20240522, 1, number of examples, bytes of the longest example). Each
/// example then is a sequence of 16-bit words: 65535, its size in bytes, its index, the index of the right completion, the number
/// of completions, and the context and each completion as a token count followed by the tokens. Little-endian. Immutable once
/// open; const functions may be called from any thread.
class ChoiceFile {
 public:
  /// A completion after its context; offsets are in 16-bit words from the beginning of the file.
  struct Completion {
    std::size_t context = 0, context_tokens = 0;
    std::size_t tokens = 0, count = 0;
    [[nodiscard]] std::size_t length() const noexcept { return context_tokens + count; }
  };
  struct Example {
    std::size_t first = 0, count = 0;  // range of indices into completions()
    std::size_t right = 0;             // 0 … count − 1
  };

  /// Reads the file once and checks every length and token. Errors: Error(data) with the path, the example, what was found and
  /// what was expected; an empty context or completion is an error as well.
  ChoiceFile(const std::filesystem::path& path, std::int64_t vocabulary);

  [[nodiscard]] const std::vector<Example>& examples() const noexcept { return examples_; }
  [[nodiscard]] const std::vector<Completion>& completions() const noexcept { return completions_; }
  /// Number of tokens of the longest context with its completion.
  [[nodiscard]] std::size_t longest() const noexcept { return longest_; }
  /// Copies the context and the completion, completion.length() tokens.
  void read(const Completion& completion, std::span<std::int32_t> tokens) const;

 private:
  class Reader;
  MappedFile file_;
  std::vector<Example> examples_;
  std::vector<Completion> completions_;
  std::size_t longest_ = 0;
};

}  // namespace millrace::runtime
