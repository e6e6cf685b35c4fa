#include "runtime/io/tensor_folder.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/io/json_reader.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* tensor_folder_component = "runtime.tensor_folder";
constexpr const char* single_name = "model.safetensors";
constexpr const char* index_name = "model.safetensors.index.json";
constexpr std::size_t names_in_a_message = 10;

/// A link may only lead to a path in the folder or, for a file of the Hugging Face cache (hub/models--x/snapshots/y), in that
/// model's blobs folder.
void check_link(const std::string& folder, const std::string& path, ExitCode code) {
  if (kind_of(path) != PathKind::link) return;
  namespace fs = std::filesystem;
  std::error_code error;
  const auto target = fs::canonical(path, error);
  MILLRACE_CHECK(!error, code, tensor_folder_component, "{}: the link cannot be resolved: {}", path, error.message());
  const auto home = fs::canonical(folder, error);
  const auto blobs = home.parent_path().parent_path() / "blobs";
  const bool in_cache = home.parent_path().filename() == "snapshots" && target.parent_path() == blobs;
  MILLRACE_CHECK(target.parent_path() == home || in_cache, code, tensor_folder_component, "{}: the link leads out of the folder, to {}",
                 path, target.string());
}

void check_file_name(const std::string& name, const std::string& index_path, ExitCode code) {
  const bool plain = !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
                     name.find('\0') == std::string::npos && name.size() <= 255;
  // The name is shown as JSON, since a message ends at a NUL.
  MILLRACE_CHECK(plain, code, tensor_folder_component, "{}: the file name {} is not a plain name", index_path,
                 nlohmann::json(name.substr(0, 255)).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
}

/// Reads the index: name → file. Some versions of transformers write total_size as a float.
std::map<std::string, std::string> read_index(const std::string& path, ExitCode code, std::optional<std::uint64_t>& total) {
  const auto text = read_text_file(path, max_safetensors_header_bytes, code);
  const auto index = parse_json(text, 8, code, path);
  std::map<std::string, std::string> map;
  const auto files = JsonReader(index, path, code).member("weight_map");
  for (const auto& [name, value] : files.object().items()) {
    const std::string& file = files.member(name).text();
    check_file_name(file, path, code);
    map.emplace(name, file);
  }
  const auto metadata = index.find("metadata");
  if (metadata == index.end() || !metadata->is_object() || !metadata->contains("total_size")) return map;
  const auto& size = metadata->at("total_size");
  const bool whole = size.is_number_unsigned() || (size.is_number_float() && size.get<double>() >= 0 && size.get<double>() < 9e18);
  MILLRACE_CHECK(whole, code, tensor_folder_component, "{}: total_size is not a number of bytes", path);
  total = size.is_number_unsigned() ? size.get<std::uint64_t>() : static_cast<std::uint64_t>(size.get<double>());
  return map;
}

std::string some_of(const std::vector<std::string>& items) {
  const auto shown = std::min(items.size(), names_in_a_message);
  auto text = fmt::format("{}", fmt::join(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (shown < items.size()) text += fmt::format(" and {} more", items.size() - shown);
  return text;
}

}  // namespace

TensorSource::TensorSource(const std::string& path, ExitCode code) : path_(path), code_(code) {
  if (path.ends_with(".safetensors")) {
    adopt(std::make_unique<SafetensorsFile>(path, code));
  } else {
    const auto single = join_path(path, single_name);
    const auto index = join_path(path, index_name);
    const bool has_single = kind_of(single) != PathKind::missing;
    const bool has_index = kind_of(index) != PathKind::missing;
    MILLRACE_CHECK(has_single || has_index, code, tensor_folder_component, "{}: neither {} nor {} exists", path, single_name, index_name);
    if (has_single)
      open_single(single);
    else
      open_index(path, index);
  }
  for (const auto& [name, file] : owner_) names_.push_back(name);
}

void TensorSource::open_single(const std::string& path) {
  check_link(path_, path, code_);
  adopt(std::make_unique<SafetensorsFile>(path, code_));
}

void TensorSource::open_index(const std::string& folder, const std::string& index_path) {
  check_link(folder, index_path, code_);
  std::optional<std::uint64_t> total;
  const auto map = read_index(index_path, code_, total);
  std::set<std::string> file_names;
  for (const auto& [name, file] : map) file_names.insert(file);
  for (const auto& file_name : file_names) {
    const auto path = join_path(folder, file_name);
    check_link(folder, path, code_);
    MILLRACE_CHECK(kind_of(path) != PathKind::missing, code_, tensor_folder_component, "{}: No such file, but {} names it", path,
                   index_path);
    adopt(std::make_unique<SafetensorsFile>(path, code_));
    for (const auto& tensor : files_.back()->tensors()) {
      const auto listed = map.find(tensor.name);
      MILLRACE_CHECK(listed != map.end(), code_, tensor_folder_component, "{}: tensor '{}' is not in the index {}", path, tensor.name,
                     index_path);
      MILLRACE_CHECK(listed->second == file_name, code_, tensor_folder_component, "{}: by the index tensor '{}' is in {}", path,
                     tensor.name, listed->second);
    }
  }
  for (const auto& [name, file] : map)
    MILLRACE_CHECK(has(name), code_, tensor_folder_component, "{}: tensor '{}' is not in {}, where the index has it", index_path, name,
                   file);
  MILLRACE_CHECK(!total || *total == total_bytes_, code_, tensor_folder_component, "{}: total_size is {}, but the tensors have {} bytes",
                 index_path, *total, total_bytes_);
}

void TensorSource::adopt(std::unique_ptr<SafetensorsFile> file) {
  for (const auto& tensor : file->tensors()) {
    const auto [place, is_new] = owner_.emplace(tensor.name, file.get());
    MILLRACE_CHECK(is_new, code_, tensor_folder_component, "tensor '{}' is in both {} and {}", tensor.name, place->second->path(),
                   file->path());
    total_bytes_ += tensor.bytes();
  }
  files_.push_back(std::move(file));
}

const SafetensorsFile& TensorSource::file_of(std::string_view name) const {
  const auto place = owner_.find(name);
  MILLRACE_CHECK(place != owner_.end(), code_, tensor_folder_component, "{}: there is no tensor '{}'", path_, name);
  return *place->second;
}

const FileTensor& TensorSource::at(std::string_view name) const { return file_of(name).at(name); }
void TensorSource::read(std::string_view name, std::span<float> destination) const { file_of(name).read(name, destination); }
void TensorSource::read(std::string_view name, std::span<kernels::BFloat16> destination) const { file_of(name).read(name, destination); }
void TensorSource::read_part(std::string_view name, std::uint64_t first, std::span<float> destination) const {
  file_of(name).read_part(name, first, destination);
}
void TensorSource::read_bytes(std::string_view name, std::uint64_t offset, std::span<std::byte> destination) const {
  file_of(name).read_bytes(at(name), offset, destination);
}

void TensorSource::check(std::span<const ExpectedTensor> expected, std::span<const std::string> ignored) const {
  std::vector<std::string> missing, misshapen, unexpected;
  std::set<std::string_view> known(ignored.begin(), ignored.end());
  for (const auto& tensor : expected) {
    known.insert(tensor.name);
    if (!has(tensor.name)) {
      missing.push_back(tensor.name);
    } else if (at(tensor.name).shape != tensor.shape) {
      misshapen.push_back(fmt::format("{} is {}, expected {}", tensor.name, shape_text(at(tensor.name).shape), shape_text(tensor.shape)));
    }
  }
  for (const auto& name : names_)
    if (!known.contains(name)) unexpected.push_back(name);
  std::vector<std::string> parts;
  if (!missing.empty()) parts.push_back(fmt::format("{} missing: {}", missing.size(), some_of(missing)));
  if (!unexpected.empty()) parts.push_back(fmt::format("{} unexpected: {}", unexpected.size(), some_of(unexpected)));
  if (!misshapen.empty()) parts.push_back(fmt::format("{} of another shape: {}", misshapen.size(), some_of(misshapen)));
  MILLRACE_CHECK(parts.empty(), code_, tensor_folder_component, "{}: the tensors are not the model's: {}", path_, fmt::join(parts, "; "));
}

namespace {

/// Splits the tensors, in name order, into shards; a new shard begins where one is full.
std::vector<std::vector<FileTensor>> cut_into_shards(std::vector<FileTensor> tensors, std::uint64_t max_shard_bytes) {
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  std::vector<std::vector<FileTensor>> shards(1);
  std::uint64_t filled = 0;
  for (auto& tensor : tensors) {
    const auto bytes = bytes_of(tensor.name, tensor.dtype, tensor.shape);
    if (filled + bytes > max_shard_bytes && !shards.back().empty()) {
      shards.emplace_back();
      filled = 0;
    }
    filled += bytes;
    shards.back().push_back(std::move(tensor));
  }
  return shards;
}

bool belongs_to_an_export(std::string_view name) {
  return name == single_name || name == index_name ||
         (name.starts_with("model-") && name.ends_with(".safetensors") && name.find("-of-") != name.npos);
}

}  // namespace

void write_tensor_folder(const std::string& folder, std::vector<FileTensor> tensors, const Metadata& metadata,
                         const TensorProducer& producer, std::uint64_t max_shard_bytes) {
  make_directories(folder);
  const auto shards = cut_into_shards(std::move(tensors), max_shard_bytes);
  std::set<std::string> written;
  nlohmann::json map = nlohmann::json::object();
  std::uint64_t total = 0;
  for (std::size_t index = 0; index < shards.size(); ++index) {
    const auto name =
        shards.size() == 1 ? std::string(single_name) : fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, shards.size());
    write_safetensors(join_path(folder, name), shards[index], metadata, producer);
    written.insert(name);
    for (const auto& tensor : shards[index]) {
      map[tensor.name] = name;
      total += bytes_of(tensor.name, tensor.dtype, tensor.shape);
    }
  }
  if (shards.size() > 1) {
    const nlohmann::json index = {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
    write_text_file(join_path(folder, index_name), index.dump(2) + "\n");
    written.insert(index_name);
  }
  for (const auto& name : list_directory(folder))
    if (belongs_to_an_export(name) && !written.contains(name)) remove_file(join_path(folder, name));
  sync_directory(folder);
}

}  // namespace millrace::runtime
