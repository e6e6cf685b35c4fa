#include "layers/formats/stored_elements.hpp"

#include <algorithm>

namespace millrace::layers {

std::vector<float> transposed(std::span<const float> matrix, std::int64_t rows, std::int64_t columns) {
  // By tiles: otherwise each cache line of the result would be fetched once per element.
  constexpr std::int64_t tile = 32;
  std::vector<float> result(matrix.size());
  for (std::int64_t top = 0; top < rows; top += tile) {
    for (std::int64_t left = 0; left < columns; left += tile) {
      for (std::int64_t row = top; row < std::min(top + tile, rows); ++row)
        for (std::int64_t column = left; column < std::min(left + tile, columns); ++column)
          result[static_cast<std::size_t>(column * rows + row)] = matrix[static_cast<std::size_t>(row * columns + column)];
    }
  }
  return result;
}

std::pair<std::int64_t, std::int64_t> matrix_of(const kernels::Shape& stored) { return {stored[0], stored.elements() / stored[0]}; }

std::vector<std::string> tensors_of(const ParameterSpec& spec) {
  return spec.stored.parts.empty() ? std::vector{spec.name} : spec.stored.parts;
}

std::vector<std::pair<std::string, std::vector<float>>> as_stored(const ParameterSpec& spec, std::span<const float> elements) {
  const std::vector<std::string> names = tensors_of(spec);
  const std::size_t size = elements.size() / names.size();
  std::vector<std::pair<std::string, std::vector<float>>> tensors;
  for (std::size_t part = 0; part < names.size(); ++part) {
    const std::span<const float> from = elements.subspan(part * size, size);
    if (!spec.stored.transposed) {
      tensors.emplace_back(names[part], std::vector<float>(from.begin(), from.end()));
      continue;
    }
    // A part of the program's matrix has the file's columns as rows.
    const auto [rows, columns] = matrix_of(spec.stored.shape);
    tensors.emplace_back(names[part], transposed(from, columns, rows));
  }
  return tensors;
}

void write_elements(std::span<const float> elements, runtime::FileDType dtype, const runtime::ByteSink& sink) {
  constexpr std::size_t piece = 1 << 16;
  std::vector<std::byte> bytes;
  for (std::size_t begin = 0; begin < elements.size(); begin += piece) {
    const auto part = elements.subspan(begin, std::min(piece, elements.size() - begin));
    bytes.resize(part.size() * runtime::bits_of(dtype) / 8);
    runtime::convert(part, dtype, bytes);
    sink(bytes);
  }
}

}  // namespace millrace::layers
