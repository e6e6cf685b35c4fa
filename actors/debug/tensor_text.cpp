#include "actors/debug/tensor_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>

#include "actors/debug/component.hpp"
#include "kernels/base/check.hpp"
#include "kernels/statistics.hpp"
#include "runtime/io/safetensors.hpp"

namespace millrace::actors {
namespace {

using kernels::DType;

constexpr std::int64_t corner_size = 6;

/// Formats an element's indices in a tensor of these sizes: "[2, 17]".
std::string place_of(std::int64_t element, const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> place(sizes.size());
  for (std::size_t axis = sizes.size(); axis-- > 0; element /= sizes[axis]) place[axis] = element % sizes[axis];
  return fmt::format("[{}]", fmt::join(place, ", "));
}

std::string number(double value) { return fmt::format("{:>11.4g}", value); }

std::string corner(const kernels::Tensor& tensor, const std::vector<double>& numbers) {
  const auto sizes = tensor.shape.sizes();
  const std::int64_t columns = sizes.empty() ? 1 : sizes.back(), rows = columns > 0 ? tensor.elements() / columns : 0;
  std::string text;
  for (std::int64_t row = 0; row < std::min(rows, corner_size); ++row) {
    text += " ";
    for (std::int64_t column = 0; column < std::min(columns, corner_size); ++column)
      text += number(numbers[static_cast<std::size_t>(row * columns + column)]);
    text += columns > corner_size ? "  …\n" : "\n";
  }
  if (rows > corner_size) text += fmt::format("  … {} rows of {}\n", rows, columns);
  return text;
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
  auto text = fmt::format("{}  {} {}  {}\n  min {:.6g}  max {:.6g}  mean {:.6g}  norm {:.6g}", named.name, kernels::to_string(tensor.dtype),
                          kernels::to_string(tensor.shape), named.where, found.minimum, found.maximum, found.mean, found.norm);
  const auto numbers = numbers_of(tensor);
  if (found.not_finite > 0) {
    const auto first = std::find_if(numbers.begin(), numbers.end(), [](double value) { return !std::isfinite(value); });
    text += fmt::format("  not finite {} (the first at {}: {})", found.not_finite, place_of(first - numbers.begin(), tensor.shape.sizes()),
                        *first);
  }
  return text + "\n" + corner(tensor, numbers);
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
  MILLRACE_CHECK(other != nullptr, ExitCode::usage, debugger, "{} has {} tensors, none of the name {}", path, file.tensors().size(),
                 named.name);
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
