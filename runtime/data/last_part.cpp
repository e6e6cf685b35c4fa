#include "runtime/data/last_part.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "kernels/base/check.hpp"

namespace millrace::runtime {
namespace {

class StreamPart final : public TokenStream {
 public:
  StreamPart(std::shared_ptr<const TokenStream> stream, std::int64_t first, std::int64_t last)
      : stream_(std::move(stream)), first_(first), last_(last) {}

  [[nodiscard]] std::int64_t size() const noexcept override { return last_ - first_; }
  void read(std::int64_t first, std::span<std::int32_t> tokens) const override { stream_->read(first_ + first, tokens); }
  [[nodiscard]] std::int64_t next_border(std::int64_t first, std::int64_t last) const override {
    return stream_->next_border(first_ + first, first_ + last) - first_;
  }

 private:
  std::shared_ptr<const TokenStream> stream_;
  std::int64_t first_, last_;
};

/// Finds the last border in [first, last).
std::optional<std::int64_t> last_border(const TokenStream& stream, std::int64_t first, std::int64_t last) {
  std::optional<std::int64_t> found;
  for (auto border = stream.next_border(first, last); border < last; border = stream.next_border(border + 1, last)) found = border;
  return found;
}

/// The beginning of the last document that begins before `token`; 0 if the first document contains it.
std::int64_t document_before(const TokenStream& stream, std::int64_t token) {
  // Searches backward from the token in pieces of growing length, since documents are short and streams are long.
  std::int64_t end = token - 1;
  for (std::int64_t length = 4096; end > 0; length *= 2) {
    const std::int64_t begin = std::max<std::int64_t>(end - length, 0);
    if (const auto border = last_border(stream, begin, end)) return *border + 1;
    end = begin;
  }
  return 0;
}

}  // namespace

LastPart last_part(const TokenStream& stream, std::int64_t every) {
  const std::int64_t size = stream.size(), target = size / every;
  // One token and its target: the least that can be evaluated.
  constexpr std::int64_t min_tokens = 2;
  if (target < min_tokens) return {size, false, fmt::format("its {} tokens are too few to hold out one in {}", size, every)};
  const std::int64_t cut = size - target;
  const std::int64_t before = document_before(stream, cut + 1);                        // may equal the cut
  const std::int64_t after = before == cut ? cut : stream.next_border(cut, size) + 1;  // equals size if no further document begins
  const bool has_after = size - after >= min_tokens, has_before = before >= (size + 1) / 2;
  if (has_after && (!has_before || after - cut <= cut - before)) return {after, true, {}};
  if (has_before) return {before, true, {}};
  if (before == 0 && after >= size) return {cut, false, {}};
  return {size, false,
          fmt::format("to hold out one in {} of its tokens, a document of {} of {} tokens would have to be split", every,
                      std::min(after, size) - before, size)};
}

std::unique_ptr<TokenStream> part_of(std::shared_ptr<const TokenStream> stream, std::int64_t first, std::int64_t last) {
  return std::make_unique<StreamPart>(std::move(stream), first, last);
}

}  // namespace millrace::runtime
