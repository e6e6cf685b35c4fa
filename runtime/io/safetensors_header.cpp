#include "runtime/io/safetensors_header.hpp"

#include "runtime/io/json_words.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

namespace millrace::runtime {
namespace {

constexpr const char* safetensors_header_component = "runtime.safetensors";
constexpr std::size_t max_dimensions = 32;
constexpr std::size_t max_name_bytes = 4096;

std::optional<std::uint64_t> checked_bytes(FileDType dtype, const std::vector<std::int64_t>& shape) {
  std::uint64_t product = bits_of(dtype);
  for (const auto size : shape)
    if (size < 0 || __builtin_mul_overflow(product, static_cast<std::uint64_t>(size), &product)) return std::nullopt;
  if (product % 8 != 0) return std::nullopt;
  return product / 8;
}

std::string printable(std::string_view name) {
  std::string text;
  for (const char c : name.substr(0, 200)) text += static_cast<unsigned char>(c) < 32 || c == 127 ? '?' : c;
  return text;
}

/// Parses the JSON as a stream, so that a hostile header uses no more memory than its own bytes and duplicate keys are detected.
/// Depth 1 holds tensor names, depth 2 the fields of one tensor (or the metadata), depth 3 the numbers of an array.
class HeaderParser : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderParser(SafetensorsHeader& header, ExitCode code, const std::string& path) : header_(header), code_(code), path_(path) {}

  bool null() override { reject("a null"); }
  bool boolean(bool /*value*/) override { reject("a boolean"); }
  bool number_integer(number_integer_t /*value*/) override { reject("a number with a sign"); }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { reject("a number that is not a 64-bit whole number"); }
  bool binary(binary_t& /*value*/) override { reject("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (array_ == nullptr) reject("a number outside of shape and data_offsets");
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) reject("a number above 2^63");
    if (array_->size() >= max_dimensions) reject("more than 32 numbers in an array");
    array_->push_back(static_cast<std::int64_t>(value));
    return true;
  }

  bool string(string_t& value) override {
    if (depth_ == 2 && in_metadata_) return add_metadata(value);
    if (depth_ != 2 || field_ != "dtype") reject("a string where none belongs");
    const auto dtype = file_dtype_from(value);
    if (!dtype) reject(fmt::format("the dtype '{}'", printable(value)));
    tensor().dtype = *dtype;
    has_dtype_ = true;
    return true;
  }

  bool start_object(std::size_t /*elements*/) override {
    if (++depth_ > 2 || array_ != nullptr) reject("an object where none belongs");
    has_dtype_ = has_shape_ = has_offsets_ = false;
    return true;
  }

  bool end_object() override {
    if (--depth_ == 0) return true;
    if (!in_metadata_) finish_tensor();
    in_metadata_ = false;
    return true;
  }

  bool start_array(std::size_t /*elements*/) override {
    if (depth_ != 2 || in_metadata_ || array_ != nullptr || (field_ != "shape" && field_ != "data_offsets"))
      reject("an array where none belongs");
    array_ = field_ == "shape" ? &tensor().shape : &offsets_;
    return true;
  }

  bool end_array() override {
    array_ = nullptr;
    (field_ == "shape" ? has_shape_ : has_offsets_) = true;
    return true;
  }

  bool key(string_t& value) override {
    if (depth_ == 1) return start_entry(value);
    field_ = value;
    if (in_metadata_) {
      if (field_.size() > max_name_bytes) reject("a metadata key of more than 4096 bytes");
      if (header_.metadata.contains(field_)) reject(fmt::format("the metadata key '{}' twice", printable(field_)));
      return true;
    }
    const bool twice = (field_ == "dtype" && has_dtype_) || (field_ == "shape" && has_shape_) || (field_ == "data_offsets" && has_offsets_);
    if (twice) reject(fmt::format("'{}' twice", field_));
    if (field_ != "dtype" && field_ != "shape" && field_ != "data_offsets") reject(fmt::format("the field '{}'", printable(field_)));
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/, const nlohmann::json::exception& error) override {
    fail(code_, safetensors_header_component, "{}: the header is not JSON at byte {}: {}", path_, position + 8, json_words(error.what()));
  }

 private:
  [[noreturn]] void reject(const std::string& what) {
    const auto where = in_metadata_              ? std::string("__metadata__")
                       : header_.tensors.empty() ? "the header"
                                                 : "tensor '" + printable(tensor().name) + "'";
    fail(code_, safetensors_header_component, "{}: {} has {}", path_, where, what);
  }

  FileTensor& tensor() { return header_.tensors.back(); }

  bool add_metadata(string_t& value) {
    header_.metadata.emplace(field_, value);
    return true;
  }

  bool start_entry(string_t& name) {
    if (name == "__metadata__") {
      MILLRACE_CHECK(!metadata_seen_, code_, safetensors_header_component, "{}: __metadata__ appears twice in the header", path_);
      in_metadata_ = metadata_seen_ = true;
      return true;
    }
    MILLRACE_CHECK(!name.empty(), code_, safetensors_header_component, "{}: a tensor without a name", path_);
    MILLRACE_CHECK(name.size() <= max_name_bytes, code_, safetensors_header_component, "{}: a tensor name of {} bytes, expected at most {}",
                   path_, name.size(), max_name_bytes);
    MILLRACE_CHECK(name.find('\0') == std::string::npos, code_, safetensors_header_component, "{}: tensor '{}' has a NUL in its name",
                   path_, printable(name));
    MILLRACE_CHECK(header_.tensors.size() < max_safetensors_tensors, code_, safetensors_header_component, "{}: more than {} tensors", path_,
                   max_safetensors_tensors);
    header_.tensors.emplace_back().name = name;
    return true;
  }

  void finish_tensor() {
    if (!has_dtype_ || !has_shape_ || !has_offsets_) reject("not all of dtype, shape and data_offsets");
    if (offsets_.size() != 2) reject(fmt::format("{} data_offsets, expected 2", offsets_.size()));
    tensor().begin = static_cast<std::uint64_t>(offsets_[0]);
    tensor().end = static_cast<std::uint64_t>(offsets_[1]);
    offsets_.clear();
    const auto bytes = checked_bytes(tensor().dtype, tensor().shape);
    if (!bytes) reject(fmt::format("the shape {}, which overflows or is not a whole number of bytes", shape_text(tensor().shape)));
    if (tensor().end < tensor().begin || tensor().bytes() != *bytes)
      reject(fmt::format("data_offsets [{}, {}), expected {} bytes for {} {}", tensor().begin, tensor().end, *bytes,
                         to_string(tensor().dtype), shape_text(tensor().shape)));
    tensor().shape.shrink_to_fit();
  }

  SafetensorsHeader& header_;
  ExitCode code_;
  const std::string& path_;
  int depth_ = 0;
  bool in_metadata_ = false, metadata_seen_ = false;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  std::string field_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::int64_t>* array_ = nullptr;
};

void check_names(const SafetensorsHeader& header, ExitCode code, const std::string& path) {
  std::vector<std::string_view> names;
  names.reserve(header.tensors.size());
  for (const auto& tensor : header.tensors) names.emplace_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    fail(code, safetensors_header_component, "{}: tensor '{}' appears twice in the header", path, printable(*twice));
}

bool lies_before(const FileTensor& a, const FileTensor& b) {
  if (a.begin != b.begin) return a.begin < b.begin;
  return a.end != b.end ? a.end < b.end : a.name < b.name;
}

void check_cover(const SafetensorsHeader& header, std::uint64_t data_bytes, ExitCode code, const std::string& path) {
  std::uint64_t position = 0;
  for (const auto& tensor : header.tensors) {
    MILLRACE_CHECK(tensor.begin == position, code, safetensors_header_component,
                   "{}: tensor '{}' begins at byte {} of the data, expected {}: {}", path, printable(tensor.name), tensor.begin, position,
                   tensor.begin < position ? "it overlaps the previous one" : "there is a gap before it");
    MILLRACE_CHECK(tensor.end <= data_bytes, code, safetensors_header_component,
                   "{}: tensor '{}' ends at byte {} of the data, which has {}: the file was cut short", path, printable(tensor.name),
                   tensor.end, data_bytes);
    position = tensor.end;
  }
  MILLRACE_CHECK(position == data_bytes, code, safetensors_header_component,
                 "{}: the last tensor ends at byte {} of the data, which has {}", path, position, data_bytes);
}

std::string entry_text(const FileTensor& tensor) {
  return fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", nlohmann::json(tensor.name).dump(),
                     to_string(tensor.dtype), fmt::join(tensor.shape, ","), tensor.begin, tensor.end);
}

std::string header_json(const SafetensorsHeader& header) {
  std::string text = "{";
  if (!header.metadata.empty()) text += "\"__metadata__\":" + nlohmann::json(header.metadata).dump();
  for (const auto& tensor : header.tensors) {
    if (text.size() > 1) text += ',';
    text += entry_text(tensor);
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

std::uint64_t FileTensor::elements() const noexcept {
  std::uint64_t product = 1;
  for (const auto size : shape) product *= static_cast<std::uint64_t>(size);
  return product;
}

std::uint64_t bytes_of(const std::string& name, FileDType dtype, const std::vector<std::int64_t>& shape) {
  const auto bytes = checked_bytes(dtype, shape);
  MILLRACE_CHECK(bytes.has_value(), ExitCode::internal, safetensors_header_component, "tensor '{}': {} {} is not a whole number of bytes",
                 name, to_string(dtype), shape_text(shape));
  return *bytes;
}

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t file_bytes, ExitCode code, const std::string& path) {
  SafetensorsHeader header;
  header.data_offset = 8 + json.size();
  MILLRACE_CHECK(!json.empty() && json.front() == '{', code, safetensors_header_component,
                 "{}: the header does not begin with '{{' at byte 8", path);
  const auto last = json.find_last_not_of(' ');
  MILLRACE_CHECK(json[last] == '}', code, safetensors_header_component, "{}: the header does not end with '}}' and spaces, at byte {}",
                 path, last + 8);
  const auto nul = json.find('\0');  // the library treats a NUL as the end of its input
  MILLRACE_CHECK(nul == std::string_view::npos, code, safetensors_header_component, "{}: a NUL in the header at byte {}", path, nul + 8);
  HeaderParser parser(header, code, path);
  nlohmann::json::sax_parse(json, &parser);
  check_names(header, code, path);
  std::sort(header.tensors.begin(), header.tensors.end(), lies_before);
  check_cover(header, file_bytes - header.data_offset, code, path);
  return header;
}

SafetensorsLayout lay_out_safetensors(std::vector<FileTensor> tensors, const Metadata& metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const FileTensor& a, const FileTensor& b) {
    return bits_of(a.dtype) != bits_of(b.dtype) ? bits_of(a.dtype) > bits_of(b.dtype) : a.name < b.name;
  });
  std::uint64_t position = 0;
  for (auto& tensor : tensors) {
    MILLRACE_CHECK(!tensor.name.empty() && tensor.name.size() <= max_name_bytes && tensor.name.find('\0') == std::string::npos &&
                       tensor.name != "__metadata__",
                   ExitCode::internal, safetensors_header_component, "'{}' cannot be the name of a tensor", printable(tensor.name));
    tensor.begin = position;
    tensor.end = position += bytes_of(tensor.name, tensor.dtype, tensor.shape);
  }
  SafetensorsLayout layout{{std::move(tensors), metadata, 0}, {}};
  // Zero-size tensors have the same begin as their successor. Readers sort by (begin, end, name), and so does this.
  std::sort(layout.header.tensors.begin(), layout.header.tensors.end(), lies_before);
  check_names(layout.header, ExitCode::internal, "a file to be written");
  const auto json = header_json(layout.header);
  layout.header.data_offset = 8 + json.size();
  for (int byte = 0; byte < 8; ++byte) layout.bytes += static_cast<char>((json.size() >> (8 * byte)) & 0xffU);
  layout.bytes += json;
  return layout;
}

}  // namespace millrace::runtime
