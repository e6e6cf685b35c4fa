#include "runtime/data/choice_file.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"

namespace millrace::runtime {
namespace {

constexpr std::size_t header_bytes = 1024;
constexpr std::int32_t magic = 20240522, version = 1;
constexpr std::int32_t begin_of_example = 65535;

template <class T>
T number_at(std::span<const std::byte> bytes, std::size_t at) noexcept {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

std::int32_t number(std::span<const std::byte> bytes, std::size_t index) noexcept { return number_at<std::uint16_t>(bytes, 2 * index); }

}  // namespace

/// Reads the examples in order and checks each.
class ChoiceFile::Reader {
 public:
  Reader(ChoiceFile& file, std::string path, std::int64_t vocabulary)
      : file_(file), bytes_(file.file_.bytes()), path_(std::move(path)), vocabulary_(vocabulary) {}

  void read() {
    MILLRACE_CHECK(
        bytes_.size() >= header_bytes && number_at<std::int32_t>(bytes_, 0) == magic && number_at<std::int32_t>(bytes_, 4) == version,
        ExitCode::data, "data", "{}: expected llm.c's multiple-choice file: {} bytes that begin with {} and {}", path_, header_bytes, magic,
        version);
    const auto examples = number_at<std::int32_t>(bytes_, 8), longest = number_at<std::int32_t>(bytes_, 12);
    MILLRACE_CHECK(examples > 0, ExitCode::data, "data", "{}: {} examples, expected one or more", path_, examples);
    for (example_ = 0; example_ < examples; ++example_) {
      const std::size_t first = at_;
      one();
      const std::size_t size = 2 * (at_ - first);
      require(static_cast<std::int64_t>(size) == declared_ && declared_ <= longest, "{}, but its header says {} (longest example: {})",
              byte_count(size), declared_, longest);
    }
    MILLRACE_CHECK(2 * at_ == bytes_.size(), ExitCode::data, "data", "{}: {} after the last of {}, expected the file to end there", path_,
                   byte_count(bytes_.size() - 2 * at_), counted(examples, "example"));
  }

 private:
  template <class... Arguments>
  void require(bool holds, fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    if (!holds)
      fail(ExitCode::data, "data", "{}: example {}: {}", path_, example_, fmt::format(format, std::forward<Arguments>(arguments)...));
  }

  std::int32_t next() {
    require(2 * at_ + 2 <= bytes_.size(), "the file ends in it, at {} bytes", bytes_.size());
    return number(bytes_, at_++);
  }

  /// Reads a count of tokens and skips the tokens; returns the index of the first one.
  std::size_t tokens(const char* what, std::size_t& count) {
    count = static_cast<std::size_t>(next());
    const std::size_t first = at_;
    require(count > 0, "a {} without tokens", what);
    require(2 * (at_ + count) <= bytes_.size(), "a {} of {} tokens, the file ends before", what, count);
    for (; at_ < first + count; ++at_)
      require(number(bytes_, at_) < vocabulary_, "token {} in a {}, the model's vocabulary has {}", number(bytes_, at_), what, vocabulary_);
    return first;
  }

  void one() {
    const auto mark = next();
    require(mark == begin_of_example, "begins with {}, expected {}", mark, begin_of_example);
    declared_ = next();
    const auto index = next(), right = next(), count = next();
    require(index == (example_ & 0xffff), "has the index {}", index);
    require(right < count, "completion {} of {} is right, expected less", right, count);
    Completion completion;
    completion.context = tokens("context", completion.context_tokens);
    file_.examples_.push_back({file_.completions_.size(), static_cast<std::size_t>(count), static_cast<std::size_t>(right)});
    for (int i = 0; i < count; ++i) {
      completion.tokens = tokens("completion", completion.count);
      file_.completions_.push_back(completion);
      file_.longest_ = std::max(file_.longest_, completion.length());
    }
  }

  ChoiceFile& file_;
  std::span<const std::byte> bytes_;
  std::string path_;
  std::int64_t vocabulary_;
  std::size_t at_ = header_bytes / 2;  // in 16-bit words
  std::int32_t example_ = 0, declared_ = 0;
};

ChoiceFile::ChoiceFile(const std::filesystem::path& path, std::int64_t vocabulary) : file_(path) {
  Reader(*this, path.string(), vocabulary).read();
}

void ChoiceFile::read(const Completion& completion, std::span<std::int32_t> tokens) const {
  for (std::size_t i = 0; i < completion.length(); ++i) {
    const bool inside = i < completion.context_tokens;
    tokens[i] = number(file_.bytes(), inside ? completion.context + i : completion.tokens + i - completion.context_tokens);
  }
}

}  // namespace millrace::runtime
