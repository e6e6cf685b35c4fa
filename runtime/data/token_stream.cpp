#include "runtime/data/token_stream.hpp"

#include <algorithm>
#include <utility>

#include "runtime/data/byte_tokenizer.hpp"

namespace millrace::runtime {
namespace {

/// Index at which each file of a stream begins; the last entry is the size of the stream.
class FileStarts {
 public:
  void append(std::int64_t tokens) { starts_.push_back(starts_.back() + tokens); }
  [[nodiscard]] std::int64_t size() const noexcept { return starts_.back(); }
  [[nodiscard]] std::size_t file_of(std::int64_t index) const noexcept {
    return static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), index) - starts_.begin()) - 1;
  }
  [[nodiscard]] std::int64_t begin_of(std::size_t file) const noexcept { return starts_[file]; }
  [[nodiscard]] std::int64_t end_of(std::size_t file) const noexcept { return starts_[file + 1]; }

 private:
  std::vector<std::int64_t> starts_ = {0};
};

/// Splits [first, first + tokens.size()) at file boundaries and calls read(file, index within the file, part of tokens) for each
/// part.
template <class Read>
void read_by_file(const FileStarts& starts, std::int64_t first, std::span<std::int32_t> tokens, Read read) {
  if (tokens.empty()) return;
  for (std::size_t file = starts.file_of(first); !tokens.empty(); ++file) {
    const auto count = std::min(static_cast<std::int64_t>(tokens.size()), starts.end_of(file) - first);
    read(file, first - starts.begin_of(file), tokens.first(static_cast<std::size_t>(count)));
    tokens = tokens.subspan(static_cast<std::size_t>(count));
    first += count;
  }
}

class TextStream final : public TokenStream {
 public:
  explicit TextStream(std::span<const DataFile> files) {
    for (const DataFile& file : files) {
      MappedFile mapped(file.path);
      if (mapped.bytes().empty()) continue;
      starts_.append(static_cast<std::int64_t>(mapped.bytes().size()) + 1);
      files_.push_back(std::move(mapped));
    }
  }

  [[nodiscard]] std::int64_t size() const noexcept override { return starts_.size(); }

  void read(std::int64_t first, std::span<std::int32_t> tokens) const override {
    read_by_file(starts_, first, tokens, [this](std::size_t file, std::int64_t offset, std::span<std::int32_t> part) {
      const auto bytes = files_[file].bytes();
      for (std::size_t i = 0; i < part.size(); ++i) {
        const std::size_t index = static_cast<std::size_t>(offset) + i;
        part[i] = index < bytes.size() ? std::to_integer<std::int32_t>(bytes[index]) : ByteTokenizer::end_of_document;
      }
    });
  }

  [[nodiscard]] std::int64_t next_border(std::int64_t first, std::int64_t last) const override {
    if (first >= last) return last;
    return std::min(starts_.end_of(starts_.file_of(first)) - 1, last);
  }

 private:
  std::vector<MappedFile> files_;
  FileStarts starts_;
};

class TokenFileStream final : public TokenStream {
 public:
  TokenFileStream(std::span<const DataFile> files, std::int64_t vocabulary, std::int32_t separator) : separator_(separator) {
    for (const DataFile& file : files) {
      files_.emplace_back(file.path, vocabulary);
      starts_.append(files_.back().size());
    }
  }

  [[nodiscard]] std::int64_t size() const noexcept override { return starts_.size(); }

  void read(std::int64_t first, std::span<std::int32_t> tokens) const override {
    read_by_file(starts_, first, tokens,
                 [this](std::size_t file, std::int64_t offset, std::span<std::int32_t> part) { files_[file].read(offset, part); });
  }

  [[nodiscard]] std::int64_t next_border(std::int64_t first, std::int64_t last) const override {
    if (first >= last) return last;
    const std::size_t file = starts_.file_of(first);
    const std::int64_t begin = starts_.begin_of(file);
    const std::int64_t final_token = starts_.end_of(file) - 1;
    const std::int64_t end = files_[file].find_sequence_end(first - begin, std::min(last, final_token) - begin);
    return begin + files_[file].find(separator_, first - begin, end);
  }

 private:
  std::vector<TokenFile> files_;
  FileStarts starts_;
  std::int32_t separator_;
};

class JoinedStream final : public TokenStream {
 public:
  explicit JoinedStream(std::vector<std::unique_ptr<TokenStream>> streams) : streams_(std::move(streams)) {
    for (const auto& stream : streams_) starts_.append(stream->size());
  }

  [[nodiscard]] std::int64_t size() const noexcept override { return starts_.size(); }

  void read(std::int64_t first, std::span<std::int32_t> tokens) const override {
    read_by_file(starts_, first, tokens,
                 [this](std::size_t stream, std::int64_t offset, std::span<std::int32_t> part) { streams_[stream]->read(offset, part); });
  }

  [[nodiscard]] std::int64_t next_border(std::int64_t first, std::int64_t last) const override {
    if (first >= last) return last;
    const std::size_t stream = starts_.file_of(first);
    const std::int64_t begin = starts_.begin_of(stream);
    return begin + streams_[stream]->next_border(first - begin, std::min(last, starts_.end_of(stream) - 1) - begin);
  }

 private:
  std::vector<std::unique_ptr<TokenStream>> streams_;
  FileStarts starts_;
};

}  // namespace

std::unique_ptr<TokenStream> join(std::vector<std::unique_ptr<TokenStream>> streams) {
  if (streams.size() == 1) return std::move(streams.front());
  return std::make_unique<JoinedStream>(std::move(streams));
}

std::unique_ptr<TokenStream> open_text_stream(std::span<const DataFile> files) { return std::make_unique<TextStream>(files); }

std::unique_ptr<TokenStream> open_token_stream(std::span<const DataFile> files, std::int64_t vocabulary, std::int32_t separator) {
  return std::make_unique<TokenFileStream>(files, vocabulary, separator);
}

}  // namespace millrace::runtime
