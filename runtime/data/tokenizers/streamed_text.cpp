#include "runtime/data/tokenizers/streamed_text.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace millrace::runtime {
namespace {

/// Number of bytes at the end of `text` that are a beginning of the stop text.
std::size_t begun(std::string_view text, std::string_view stop) {
  for (std::size_t count = std::min(text.size(), stop.size()); count > 0; --count)
    if (text.ends_with(stop.substr(0, count))) return count;
  return 0;
}

}  // namespace

std::size_t unfinished_bytes(std::string_view text) noexcept {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0U) == 0x80U) continue;  // inside a character: search for its first byte
    const std::size_t length = byte >= 0xF8U ? 1 : byte >= 0xF0U ? 4 : byte >= 0xE0U ? 3 : byte >= 0xC2U ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

StreamedText::StreamedText(const Tokenizer& tokenizer, std::vector<std::int32_t> before, std::string stop)
    : tokenizer_(tokenizer), tokens_(std::move(before)), stop_(std::move(stop)), decoded_(tokenizer_.decode(tokens_).size()) {}

std::string StreamedText::add(std::int32_t token) {
  if (stopped_) return {};
  // Decodes everything each time, since the text of a token may depend on the tokens before it.
  tokens_.push_back(token);
  const std::string text = tokenizer_.decode(tokens_);
  held_.append(text, std::min(decoded_, text.size()));
  decoded_ = text.size();
  if (!stop_.empty()) {
    if (const auto at = held_.find(stop_); at != std::string::npos) {
      stopped_ = true;
      held_.resize(at);
      return std::exchange(held_, {});
    }
  }
  const std::size_t ready = held_.size() - std::max(begun(held_, stop_), unfinished_bytes(held_));
  std::string out = held_.substr(0, ready);
  held_.erase(0, ready);
  return out;
}

std::string StreamedText::rest() { return std::exchange(held_, {}); }

}  // namespace millrace::runtime
