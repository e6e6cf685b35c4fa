#include "layers/formats/model_folder.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>
#include <vector>

#include "kernels/base/check.hpp"
#include "layers/formats/config_file.hpp"
#include "layers/formats/fixed_tensors.hpp"
#include "layers/formats/scanned_layers.hpp"
#include "layers/formats/shared_copies.hpp"
#include "layers/formats/stored_elements.hpp"
#include "layers/models/model.hpp"
#include "layers/models/model_family.hpp"
#include "runtime/io/file_system.hpp"

namespace millrace::layers {
namespace {

/// Whether `name` is a tensor of layer `layers` or a later one (the prefix, then a number of them, then a dot), and that layer is a module
/// which predicts further tokens: only those have two norms in front of a projection.
bool is_of_further_module(const runtime::TensorSource& source, std::string_view name, std::string_view prefix, int layers) {
  if (prefix.empty() || !name.starts_with(prefix)) return false;
  const std::string_view rest = name.substr(prefix.size());
  int layer = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), layer);
  return error == std::errc() && end != rest.data() + rest.size() && *end == '.' && layer >= layers &&
         source.has(fmt::format("{}{}.eh_proj.weight", prefix, layer));
}

/// Tensors that a checkpoint may contain although they are no parameters of the model.
std::vector<std::string> ignored_names(const runtime::TensorSource& source, const std::vector<ParameterSpec>& specs,
                                       const FamilyTraits& family, bool tied) {
  int layers = 0;
  for (const ParameterSpec& spec : specs) layers = std::max(layers, spec.layer + 1);

  std::vector<std::string> names;
  if (tied) names.emplace_back("lm_head.weight");
  for (const std::string& name : source.names()) {
    const auto ends = [&](std::string_view end) { return name.ends_with(end); };
    const auto begins = [&](std::string_view begin) { return name.starts_with(begin); };
    if (ends(".rotary_emb.inv_freq") || std::ranges::any_of(family.ignored_tensors, ends) ||
        std::ranges::any_of(family.ignored_prefixes, begins) || is_of_further_module(source, name, family.layer_prefix, layers))
      names.push_back(name);
  }
  return names;
}

/// Throws unless the file's tensor is this scalar; transformers keeps it in bf16.
void check_fixed(const runtime::TensorSource& source, const std::string& name, float expected) {
  constexpr const char* component = "layers.model_folder";
  const std::vector<std::int64_t>& shape = source.at(name).shape;
  MILLRACE_CHECK(std::ranges::all_of(shape, [](std::int64_t axis) { return axis == 1; }), ExitCode::model, component,
                 "{}: {} is [{}], expected a scalar", source.path(), name, fmt::join(shape, ", "));
  float found = 0;
  source.read(name, std::span(&found, 1));
  MILLRACE_CHECK(kernels::to_bfloat16(found).bits == kernels::to_bfloat16(expected).bits, ExitCode::model, component,
                 "{}: {} = {}, supported is {}", source.path(), name, found, expected);
}

/// Throws unless the copy has the bytes of what it repeats.
void check_copy(const runtime::TensorSource& source, const std::string& copy, const std::string& original) {
  constexpr const char* component = "layers.model_folder";
  constexpr std::uint64_t part = std::uint64_t{1} << 20;
  const auto fails = [&](std::string_view what) {
    fail(ExitCode::model, component, "{}: {} differs from {} in {}, expected a copy: modules that predict further tokens share that table",
         source.path(), copy, original, what);
  };
  const runtime::FileTensor& one = source.at(copy);
  const runtime::FileTensor& other = source.at(original);
  if (one.shape != other.shape) fails("its shape");
  if (one.dtype != other.dtype) fails("its dtype");
  std::vector<std::byte> left(part), right(part);
  const std::uint64_t bytes = one.end - one.begin;
  for (std::uint64_t offset = 0; offset < bytes; offset += part) {
    const auto count = static_cast<std::size_t>(std::min(part, bytes - offset));
    source.read_bytes(copy, offset, std::span(left).first(count));
    source.read_bytes(original, offset, std::span(right).first(count));
    if (!std::equal(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(count), right.begin())) fails("its values");
  }
}

/// The family's prefix, if all names in the folder lack it.
std::string absent_prefix_of(const runtime::TensorSource& source, const std::vector<ParameterSpec>& specs, std::string_view prefix) {
  for (const ParameterSpec& spec : specs) {
    if (prefix.empty() || !spec.name.starts_with(prefix)) continue;
    return !source.has(spec.name) && source.has(spec.name.substr(prefix.size())) ? std::string(prefix) : std::string();
  }
  return {};
}

/// The family's other spellings that the folder has in place of ours.
std::vector<std::pair<std::string, std::string>> spellings_of(const runtime::TensorSource& source, const FamilyTraits& family) {
  std::vector<std::pair<std::string, std::string>> used;
  const auto any = [&](std::string_view prefix) {
    return std::ranges::any_of(source.names(), [&](const std::string& name) { return name.starts_with(prefix); });
  };
  for (const auto& [ours, other] : family.other_spellings)
    if (!any(ours) && any(other)) used.emplace_back(ours, other);
  return used;
}

}  // namespace

FolderWeights::FolderWeights(const std::string& folder, const ModelConfig& config)
    : FolderWeights(folder, model_parameters(config), family_of(config).traits(), config.tie_word_embeddings) {}

FolderWeights::FolderWeights(const std::string& folder, const std::vector<ParameterSpec>& specs, const FamilyTraits& family, bool tied)
    : source_(folder, ExitCode::model),
      spellings_(spellings_of(source_, family)),
      absent_prefix_(absent_prefix_of(source_, specs, family.optional_prefix)) {
  find_scanned(specs);
  std::vector<runtime::ExpectedTensor> expected;
  for (const ParameterSpec& spec : specs)
    for (const std::string& tensor : tensors_of(spec)) {
      const auto layers = scanned_.find(file_name(tensor));
      if (layers == scanned_.end())
        expected.push_back({file_name(tensor), spec.stored.shape.sizes()});
      else if (scanned_tensor(tensor)->layer == 0)
        expected.push_back({layers->first, scanned_shape(spec.stored.shape, layers->second).sizes()});
    }
  std::vector<std::string> ignored = ignored_names(source_, specs, family, tied);
  const std::vector<FixedTensor> fixed = fixed_tensors(specs);
  for (const FixedTensor& tensor : fixed) ignored.push_back(file_name(tensor.name));
  const std::vector<SharedCopy> copies = shared_copies(specs);
  for (const SharedCopy& copy : copies) ignored.push_back(file_name(copy.name));
  source_.check(expected, ignored);
  for (const SharedCopy& copy : copies)
    if (source_.has(file_name(copy.name))) check_copy(source_, file_name(copy.name), file_name(copy.of));
  for (const FixedTensor& tensor : fixed)
    if (source_.has(file_name(tensor.name))) check_fixed(source_, file_name(tensor.name), tensor.value);
  for (const ParameterSpec& spec : specs) {
    if (!spec.trained) continue;
    for (const std::string& tensor : tensors_of(spec))
      trained_in_bf16_ = trained_in_bf16_ && source_.at(file_name(tensor)).dtype == runtime::FileDType::bf16;
  }
}

void FolderWeights::find_scanned(const std::vector<ParameterSpec>& specs) {
  std::map<std::string, std::size_t> found;
  for (const ParameterSpec& spec : specs)
    for (const std::string& tensor : tensors_of(spec)) {
      const auto scanned = scanned_tensor(tensor);
      if (scanned && !source_.has(tensor) && source_.has(scanned->name))
        found[scanned->name] = std::max(found[scanned->name], scanned->layer + 1);
    }
  scanned_ = std::move(found);
}

void FolderWeights::read_rows(const std::string& tensor, std::int64_t first, const kernels::Shape& shape,
                              std::span<float> destination) const {
  const std::string name = file_name(tensor);
  const auto begin = static_cast<std::uint64_t>(first * (shape.elements() / shape[0]));
  const auto layers = scanned_.find(name);
  if (layers == scanned_.end()) return source_.read_part(name, begin, destination);
  std::vector<float> all(destination.size() * layers->second);
  source_.read_part(name, begin * layers->second, std::span<float>(all));
  std::ranges::copy(scanned_layer(all, shape, layers->second, scanned_tensor(tensor)->layer), destination.begin());
}

void FolderWeights::read_tensor(const std::string& tensor, const runtime::StoredForm& stored, std::span<float> destination) const {
  read_rows(tensor, 0, stored.shape, destination);
  if (!stored.transposed) return;
  const auto [rows, columns] = matrix_of(stored.shape);
  std::ranges::copy(transposed(destination, rows, columns), destination.begin());
}

std::string FolderWeights::file_name(const std::string& tensor) const {
  if (const auto scanned = scanned_tensor(tensor); scanned && scanned_.contains(scanned->name)) return scanned->name;
  for (const auto& [ours, other] : spellings_)
    if (tensor.starts_with(ours)) return other + tensor.substr(ours.size());
  return tensor.starts_with(absent_prefix_) ? tensor.substr(absent_prefix_.size()) : tensor;
}

void FolderWeights::read(const ParameterSpec& spec, std::span<float> destination) const {
  const std::vector<std::string> tensors = tensors_of(spec);
  const auto elements = static_cast<std::size_t>(spec.stored.shape.elements());
  const auto read_all = [&](std::size_t first, std::size_t count, std::span<float> place) {
    for (std::size_t i = 0; i < count; ++i) read_tensor(tensors[first + i], spec.stored, place.subspan(i * elements, elements));
  };
  if (!spec.experts.present() || spec.shape[0] == spec.experts.whole) return read_all(0, tensors.size(), destination);
  const std::int64_t first = spec.experts.first, all = spec.experts.whole;
  const auto count = static_cast<std::int64_t>(tensors.size());
  if (count % all == 0) {  // tensors for each expert
    const std::int64_t each = count / all;
    return read_all(static_cast<std::size_t>(first * each), static_cast<std::size_t>(spec.shape[0] * each), destination);
  }
  if (count == 1 && !spec.stored.transposed && spec.stored.shape[0] == all) {
    kernels::Shape rows = spec.stored.shape;
    rows.dimension(0) = spec.shape[0];
    return read_rows(tensors.front(), first, rows, destination);
  }
  // The experts are not in order in the file.
  std::vector<float> whole(elements * tensors.size());
  read_all(0, tensors.size(), whole);
  const auto begin = static_cast<std::size_t>(first) * (whole.size() / static_cast<std::size_t>(all));
  std::ranges::copy(std::span(whole).subspan(begin, destination.size()), destination.begin());
}

kernels::DType FolderWeights::dtype() const { return trained_in_bf16_ ? kernels::DType::bf16 : kernels::DType::f32; }

void write_weights(const std::string& folder, const std::vector<ParameterSpec>& specs, kernels::DType dtype, const ParameterReader& reader,
                   std::uint64_t max_shard_bytes) {
  const runtime::FileDType file_dtype = runtime::file_dtype(dtype);
  // Tensor of the file → the parameter, and the part of it, that it holds.
  std::map<std::string, std::pair<const ParameterSpec*, std::size_t>, std::less<>> sources;
  std::vector<runtime::FileTensor> tensors;
  for (const ParameterSpec& spec : specs) {
    const auto names = tensors_of(spec);
    for (std::size_t part = 0; part < names.size(); ++part) {
      tensors.push_back({names[part], spec.trained ? file_dtype : runtime::FileDType::f32, spec.stored.shape.sizes(), 0, 0});
      sources.emplace(names[part], std::pair{&spec, part});
    }
  }
  for (const SharedCopy& copy : shared_copies(specs)) {
    const auto original = sources.find(copy.of);
    if (original == sources.end()) continue;
    tensors.push_back({copy.name, file_dtype, original->second.first->stored.shape.sizes(), 0, 0});
    sources.emplace(copy.name, original->second);
  }
  std::map<std::string, float, std::less<>> scalars;
  for (const FixedTensor& tensor : fixed_tensors(specs)) {
    tensors.push_back({tensor.name, file_dtype, {}, 0, 0});
    scalars.emplace(tensor.name, tensor.value);
  }
  const auto produce = [&](const runtime::FileTensor& tensor, const runtime::ByteSink& sink) {
    if (const auto scalar = scalars.find(tensor.name); scalar != scalars.end())
      return write_elements(std::span(&scalar->second, 1), file_dtype, sink);
    const auto [spec, part] = sources.find(tensor.name)->second;
    const auto size = static_cast<std::size_t>(spec->stored.shape.elements());
    const auto elements = reader(*spec).subspan(part * size, size);
    if (!spec->stored.transposed) return write_elements(elements, tensor.dtype, sink);
    const auto [rows, columns] = matrix_of(spec->stored.shape);
    write_elements(transposed(elements, columns, rows), tensor.dtype, sink);
  };
  runtime::write_tensor_folder(folder, std::move(tensors), {{"format", "pt"}}, produce, max_shard_bytes);
}

void export_model_folder(const std::string& folder, const ConfigFile& config, kernels::DType dtype, const ParameterReader& reader,
                         std::uint64_t max_shard_bytes) {
  // First, because it fails if the file cannot express the model.
  const std::string text = config_file_text(config, dtype == kernels::DType::bf16 ? "bfloat16" : "float32");
  write_weights(folder, model_parameters(config.model), dtype, reader, max_shard_bytes);
  runtime::write_text_file(folder + "/config.json", text);
}

}  // namespace millrace::layers
