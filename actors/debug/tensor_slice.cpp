#include "actors/debug/tensor_slice.hpp"

#include <algorithm>
#include <charconv>

#include "actors/debug/component.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"

namespace millrace::actors {
namespace {

std::string without_spaces(std::string text) {
  std::erase_if(text, [](char letter) { return letter == ' ' || letter == '\t'; });
  return text;
}

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char letter : text) {
    if (letter == separator) {
      parts.emplace_back();
    } else {
      parts.back() += letter;
    }
  }
  return parts;
}

/// Reads the slices of one tensor's axes; its errors name the tensor.
struct SliceReader {
  const std::string& text;
  const std::string& name;
  const kernels::Shape& shape;

  [[nodiscard]] std::string what() const { return fmt::format("{}[{}] of shape {}", name, text, kernels::to_string(shape)); }

  [[nodiscard]] std::int64_t whole(const std::string& word) const {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    MILLRACE_CHECK(error == std::errc() && end == word.data() + word.size(), ExitCode::usage, debugger,
                   "{}: \"{}\", expected an index (3, -1) or a slice (0:4, :8, ::2) for each axis", what(), word);
    return number;
  }

  [[nodiscard]] AxisSlice axis(const std::string& entry, std::size_t index) const {
    const std::int64_t size = shape.sizes()[index];
    const auto parts = parts_of(entry, ':');
    if (parts.size() == 1) {
      const std::int64_t given = whole(entry), place = given < 0 ? given + size : given;
      MILLRACE_CHECK(size > 0, ExitCode::usage, debugger, "{}: axis {} has no elements", what(), index);
      MILLRACE_CHECK(place >= 0 && place < size, ExitCode::usage, debugger, "{}: index {} of axis {}, expected {} to {}", what(), given,
                     index, -size, size - 1);
      return {place, 1, 1, true};
    }
    MILLRACE_CHECK(parts.size() <= 3, ExitCode::usage, debugger, "{}: \"{}\", expected first:end or first:end:stride", what(), entry);
    const auto bound = [&](const std::string& word, std::int64_t fallback) {
      if (word.empty()) return fallback;
      const std::int64_t given = whole(word);
      return std::clamp<std::int64_t>(given < 0 ? given + size : given, 0, size);
    };
    const std::int64_t stride = parts.size() == 3 && !parts[2].empty() ? whole(parts[2]) : 1;
    MILLRACE_CHECK(stride > 0, ExitCode::usage, debugger, "{}: stride {}, expected 1 or more", what(), stride);
    const std::int64_t first = bound(parts[0], 0), end = bound(parts[1], size);
    return {first, end > first ? (end - first + stride - 1) / stride : 0, stride, false};
  }

  [[nodiscard]] TensorSlice read() const {
    auto entries = parts_of(without_spaces(text), ',');
    if (entries.size() > 1 && entries.back().empty()) entries.pop_back();  // "[3,]"
    const auto rank = shape.sizes().size();
    if (const auto dots = std::ranges::find(entries, "..."); dots != entries.end()) {
      const auto missing = rank + 1 - std::min(rank + 1, entries.size());
      entries.insert(entries.erase(dots), missing, ":");
    }
    MILLRACE_CHECK(entries.size() <= rank, ExitCode::usage, debugger, "{}: {}, expected at most {}, one for each axis", what(),
                   counted(entries.size(), "index"), rank);
    TensorSlice slice;
    for (std::size_t index = 0; index < rank; ++index) slice.axes.push_back(axis(index < entries.size() ? entries[index] : ":", index));
    return slice;
  }
};

}  // namespace

std::int64_t TensorSlice::elements() const {
  std::int64_t count = 1;
  for (const auto& axis : axes) count *= axis.count;
  return count;
}

std::vector<std::int64_t> TensorSlice::sizes() const {
  std::vector<std::int64_t> sizes;
  for (const auto& axis : axes)
    if (!axis.single) sizes.push_back(axis.count);
  return sizes;
}

SlicedName split_slice(const std::string& text) {
  const auto open = text.rfind('[');
  if (open == std::string::npos || !text.ends_with(']')) return {text, "", false};
  return {text.substr(0, open), text.substr(open + 1, text.size() - open - 2), true};
}

TensorSlice parse_slice(const std::string& text, const std::string& name, const kernels::Shape& shape) {
  return SliceReader{text, name, shape}.read();
}

std::int64_t element_of(const TensorSlice& slice, const std::string& text, const kernels::Shape& shape) {
  MILLRACE_CHECK(slice.elements() == 1, ExitCode::usage, debugger, "{} has {}, expected one: an index for each axis of {}", text,
                 counted(slice.elements(), "element"), kernels::to_string(shape));
  std::int64_t place = 0;
  for (std::size_t axis = 0; axis < slice.axes.size(); ++axis) place = place * shape[axis] + slice.axes[axis].first;
  return place;
}

}  // namespace millrace::actors
