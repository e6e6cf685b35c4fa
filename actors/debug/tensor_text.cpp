#include "actors/debug/tensor_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>
#include <string_view>

#include "actors/debug/component.hpp"
#include "actors/debug/tensor_slice.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "kernels/statistics.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/io/safetensors.hpp"

namespace millrace::actors {
namespace {

using kernels::DType;

constexpr std::int64_t corner_size = 6, rows_of_slice = 200, number_width = 11;

/// Formats an element's indices in a tensor of these sizes: "[2, 17]".
std::string place_of(std::int64_t element, const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> place(sizes.size());
  for (std::size_t axis = sizes.size(); axis-- > 0; element /= sizes[axis]) place[axis] = element % sizes[axis];
  return fmt::format("[{}]", fmt::join(place, ", "));
}

std::string number(double value) { return fmt::format("{:>11.4g}", value); }

std::string element_text(DType dtype, double value) {
  return dtype == DType::i32 ? fmt::format("{:>11}", static_cast<std::int64_t>(value)) : number(value);
}

/// The number of elements that lie between neighbours of each axis.
std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> strides(sizes.size(), 1);
  for (std::size_t axis = sizes.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * sizes[axis];
  return strides;
}

/// A slice as rows: of the last axis that is not a single index, one for each place of the axes before it.
class SliceRows {
 public:
  SliceRows(const kernels::Tensor& tensor, const TensorSlice& slice) : slice_(slice), strides_(strides_of(tensor.shape.sizes())) {
    for (std::size_t axis = 0; axis < slice.axes.size(); ++axis)
      if (!slice.axes[axis].single) last_ = static_cast<int>(axis);
    columns_ = last_ < 0 ? 1 : slice.axes[static_cast<std::size_t>(last_)].count;
    rows_ = columns_ == 0 ? 0 : slice.elements() / columns_;
  }
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t columns() const { return columns_; }
  /// The index of a column in the tensor.
  [[nodiscard]] std::int64_t column_index(std::int64_t column) const {
    return last_ < 0 ? 0 : slice_.axes[static_cast<std::size_t>(last_)].at(column);
  }
  /// The element, counted in the tensor's memory.
  [[nodiscard]] std::int64_t element(std::int64_t row, std::int64_t column) const {
    std::int64_t place = last_ < 0 ? 0 : column_index(column) * strides_[static_cast<std::size_t>(last_)];
    each_index(row, [&](std::size_t axis, std::int64_t index) { place += index * strides_[axis]; });
    return place;
  }
  /// The row's indices in the tensor: "[2, 17]", without the axis of the columns.
  [[nodiscard]] std::string label(std::int64_t row) const {
    std::vector<std::int64_t> indices(slice_.axes.size(), -1);
    each_index(row, [&](std::size_t axis, std::int64_t index) { indices[axis] = index; });
    std::vector<std::string> words;
    for (const std::int64_t index : indices) words.push_back(index < 0 ? ":" : fmt::format("{}", index));
    return fmt::format("[{}]", fmt::join(words, ", "));
  }

 private:
  template <class Visit>
  void each_index(std::int64_t row, const Visit& visit) const {
    for (std::size_t axis = slice_.axes.size(); axis-- > 0;) {
      if (static_cast<int>(axis) == last_) continue;
      const auto& part = slice_.axes[axis];
      visit(axis, part.at(row % part.count));
      row /= part.count;
    }
  }

  const TensorSlice& slice_;
  std::vector<std::int64_t> strides_;
  int last_ = -1;  // the axis of the columns; -1: the slice is one element
  std::int64_t rows_ = 0, columns_ = 0;
};

/// The rows, each with its indices in front, below the indices of the columns.
std::string rows_text(DType dtype, const SliceRows& rows, const std::vector<double>& numbers, std::int64_t most_rows,
                      std::int64_t most_columns) {
  const std::int64_t shown = std::min(rows.rows(), most_rows), columns = std::min(rows.columns(), most_columns);
  if (shown == 0) return "  no elements\n";
  std::size_t width = 0;
  for (std::int64_t row = 0; row < shown; ++row) width = std::max(width, rows.label(row).size());
  const auto rest = rows.columns() > columns ? fmt::format("  … {} more", rows.columns() - columns) : "";
  auto text = fmt::format("  {:<{}}", "", width);
  for (std::int64_t column = 0; column < columns; ++column) text += fmt::format("{:>11}", rows.column_index(column));
  text += rest + "\n";
  for (std::int64_t row = 0; row < shown; ++row) {
    text += fmt::format("  {:<{}}", rows.label(row), width);
    for (std::int64_t column = 0; column < columns; ++column)
      text += element_text(dtype, numbers[static_cast<std::size_t>(rows.element(row, column))]);
    text += "\n";
  }
  if (rows.rows() > shown) text += fmt::format("  … {} more {}\n", rows.rows() - shown, noun_for(rows.rows() - shown, "row"));
  return text;
}

std::string statistics_text(const kernels::Statistics& found) {
  return fmt::format("  min {:.6g}  max {:.6g}  mean {:.6g}  norm {:.6g}", found.minimum, found.maximum, found.mean, found.norm);
}

}  // namespace

std::vector<double> numbers_of(const kernels::Tensor& tensor) {
  std::vector<double> numbers(static_cast<std::size_t>(tensor.elements()));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    switch (tensor.dtype) {
      case DType::bf16:
        numbers[i] = kernels::to_float(tensor.as<kernels::BFloat16>()[i]);
        break;
      case DType::i32:
        numbers[i] = tensor.as<std::int32_t>()[i];
        break;
      case DType::f64:
        numbers[i] = tensor.as<double>()[i];
        break;
      default:
        numbers[i] = tensor.as<float>()[i];
        break;
    }
  }
  return numbers;
}

std::string describe(const NamedTensor& named) {
  const auto& tensor = named.tensor;
  const auto found = kernels::statistics(tensor);
  auto text = fmt::format("{}  {} {}  {}\n{}", named.name, kernels::to_string(tensor.dtype), kernels::to_string(tensor.shape), named.where,
                          statistics_text(found));
  const auto numbers = numbers_of(tensor);
  if (found.not_finite > 0) {
    const auto first = std::find_if(numbers.begin(), numbers.end(), [](double value) { return !std::isfinite(value); });
    text += fmt::format("  not finite {} (the first at {}: {})", found.not_finite, place_of(first - numbers.begin(), tensor.shape.sizes()),
                        *first);
  }
  const auto whole = parse_slice("...", named.name, tensor.shape);
  return text + "\n" + rows_text(tensor.dtype, SliceRows(tensor, whole), numbers, corner_size, corner_size);
}

std::string describe(const NamedTensor& named, const std::string& slice_text, std::size_t width) {
  const auto& tensor = named.tensor;
  const auto slice = parse_slice(slice_text, named.name, tensor.shape);
  const SliceRows rows(tensor, slice);
  const auto numbers = numbers_of(tensor);
  const auto head = fmt::format("{}[{}]", named.name, slice_text);
  const auto sizes = slice.sizes();
  if (sizes.empty())
    return fmt::format("{}  {:.9g}  {}, element of {}  {}\n", head, numbers[static_cast<std::size_t>(rows.element(0, 0))],
                       kernels::to_string(tensor.dtype), kernels::to_string(tensor.shape), named.where);
  std::vector<double> chosen;
  for (std::int64_t row = 0; row < rows.rows(); ++row)
    for (std::int64_t column = 0; column < rows.columns(); ++column)
      chosen.push_back(numbers[static_cast<std::size_t>(rows.element(row, column))]);
  auto text = fmt::format("{}  {} [{}] of {}  {}\n", head, kernels::to_string(tensor.dtype), fmt::join(sizes, ", "),
                          kernels::to_string(tensor.shape), named.where);
  if (!chosen.empty()) {
    const auto found = kernels::statistics(kernels::make_tensor(chosen.data(), DType::f64, {slice.elements()}));
    text += statistics_text(found) + (found.not_finite > 0 ? fmt::format("  not finite {}", found.not_finite) : "") + "\n";
  }
  std::int64_t columns = rows.columns();
  if (width > 0 && rows.rows() > 0) {
    const auto taken = static_cast<std::int64_t>(2 + rows.label(rows.rows() - 1).size());
    const auto fit = [&](std::int64_t beside) {
      return std::max<std::int64_t>(1, (static_cast<std::int64_t>(width) - beside) / number_width);
    };
    constexpr std::int64_t rest_width = 16;  // "  … 100000 more"
    if (columns > fit(taken)) columns = fit(taken + rest_width);
  }
  return text + rows_text(tensor.dtype, rows, numbers, rows_of_slice, columns);
}

std::string statistics_head() {
  return fmt::format("{:<52} {:<14} {:>11}{:>11}{:>11}{:>11} {:>10}\n", "tensor", "shape", "min", "max", "mean", "norm", "not finite");
}

std::string statistics_line(const NamedTensor& named) {
  const auto found = kernels::statistics(named.tensor);
  return fmt::format("{:<52} {:<14} {}{}{}{} {:>10}\n", named.name, kernels::to_string(named.tensor.shape), number(found.minimum),
                     number(found.maximum), number(found.mean), number(found.norm), found.not_finite);
}

std::string histogram(const NamedTensor& named) {
  // Decades of the absolute value; sign and decade together are ordered like the numbers.
  constexpr int least = -12, most = 12;
  std::map<int, std::int64_t> counts;
  std::int64_t zeros = 0, not_finite = 0;
  for (const double value : numbers_of(named.tensor)) {
    if (!std::isfinite(value)) {
      ++not_finite;
    } else if (value == 0) {
      ++zeros;
    } else {
      const int decade = std::clamp(static_cast<int>(std::floor(std::log10(std::abs(value)))), least, most) - least + 1;
      ++counts[value > 0 ? decade : -decade];
    }
  }
  if (zeros > 0) counts[0] = zeros;
  std::int64_t largest = 1;
  for (const auto& [key, count] : counts) largest = std::max(largest, count);
  auto text = fmt::format("{}  {} {}  {}\n", named.name, kernels::to_string(named.tensor.dtype), kernels::to_string(named.tensor.shape),
                          named.where);
  for (const auto& [key, count] : counts) {
    const int decade = std::abs(key) + least - 1;
    const auto label = key == 0 ? std::string("0") : fmt::format("{}1e{:+03d}", key < 0 ? "-" : "+", decade);
    text += fmt::format("  {:>6} {:>10} {}\n", label, count, std::string(static_cast<std::size_t>(1 + 50 * count / largest), '#'));
  }
  if (not_finite > 0) text += fmt::format("  {:>6} {:>10} not finite\n", "", not_finite);
  return text;
}

void dump(const NamedTensor& named, const std::string& path) {
  MILLRACE_CHECK(runtime::kind_of(path) == runtime::PathKind::missing, ExitCode::usage, debugger,
                 "{} exists already, expected a new file's name", path);
  const auto& tensor = named.tensor;
  const runtime::TensorToWrite write{named.name, runtime::file_dtype(tensor.dtype), tensor.shape.sizes(), {tensor.data, tensor.bytes()}};
  runtime::write_safetensors(path, std::array{write});
}

std::string differences(const kernels::Tensor& tensor, const kernels::Tensor& twin) {
  const auto here = numbers_of(tensor), there = numbers_of(twin);
  double largest = 0, squares = 0, norm = 0;
  std::int64_t differing = 0, first = -1, worst = 0;
  for (std::size_t i = 0; i < here.size(); ++i) {
    if (here[i] == there[i]) continue;
    ++differing;
    if (first < 0) first = static_cast<std::int64_t>(i);
    const double gap = std::abs(here[i] - there[i]);
    squares += gap * gap;
    if (!(gap <= largest)) {
      largest = gap;
      worst = static_cast<std::int64_t>(i);
    }
  }
  for (const double value : there) norm += value * value;
  const auto sizes = tensor.shape.sizes();
  const auto shown = static_cast<std::size_t>(std::max<std::int64_t>(first, 0));
  return fmt::format(
      "{} of {} elements differ; the first at {}: {:.9g} here, {:.9g} there; largest difference at {}: {:.4g}; relative {:.3g}", differing,
      here.size(), first < 0 ? "a sign of zero" : place_of(first, sizes), here[shown], there[shown], place_of(worst, sizes), largest,
      norm > 0 ? std::sqrt(squares / norm) : 0.0);
}

std::string difference(const NamedTensor& named, const std::string& path) {
  const runtime::SafetensorsFile file(path, ExitCode::usage);
  const auto* other = file.find(named.name);
  if (other == nullptr && file.tensors().size() == 1) other = &file.tensors().front();
  MILLRACE_CHECK(other != nullptr, ExitCode::usage, debugger, "{} has {}, none of the name {}", path,
                 counted(file.tensors().size(), "tensor"), named.name);
  const auto& tensor = named.tensor;
  MILLRACE_CHECK(other->shape == tensor.shape.sizes() && other->dtype == runtime::file_dtype(tensor.dtype), ExitCode::usage, debugger,
                 "{} of {} is {} [{}], expected {} {}", other->name, path, runtime::to_string(other->dtype), fmt::join(other->shape, ", "),
                 kernels::to_string(tensor.dtype), kernels::to_string(tensor.shape));
  std::vector<std::byte> bytes(tensor.bytes());
  file.read_bytes(*other, 0, bytes);
  auto twin = tensor;
  twin.data = bytes.data();
  if (std::equal(bytes.begin(), bytes.end(), tensor.data)) return fmt::format("{}: identical to {}\n", named.name, path);
  return fmt::format("{} against {}: {}\n", named.name, path, differences(tensor, twin));
}

}  // namespace millrace::actors
