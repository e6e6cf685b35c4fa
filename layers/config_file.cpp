#include "layers/config_file.hpp"

#include <fstream>
#include <iterator>

#include "layers/hugging_face/config.hpp"
#include "layers/maxtext/config.hpp"

namespace millrace::layers {
namespace {

constexpr const char* who = "layers.config_file";
constexpr std::size_t largest_file = 16 << 20;

}  // namespace

ConfigFile parse_config_file(std::string_view text, const std::string& where) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& error) {
    fail(ExitCode::model, who, "{}: not JSON: {}", where, error.what());
  }
  MILLRACE_CHECK(json.is_object(), ExitCode::model, who, "{}: a JSON {}, wanted an object", where, json.type_name());
  ConfigFile result;
  JsonReader reader(json, where);
  if (is_maxtext(reader)) {
    result.model = read_maxtext(reader, result.z_loss);
  } else {
    result.model = read_hugging_face(reader, result.warnings);
  }
  reader.warn_of_the_rest(result.warnings);
  return result;
}

ConfigFile read_config_file(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::is_directory(path, error) ? path / "config.json" : path;
  const auto size = std::filesystem::file_size(file, error);
  MILLRACE_CHECK(!error, ExitCode::model, who, "{}: cannot be read: {}", file.string(), error.message());
  MILLRACE_CHECK(size <= largest_file, ExitCode::model, who, "{}: {} bytes, wanted at most {}", file.string(), size, largest_file);
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  MILLRACE_CHECK(!stream.bad() && text.size() == size, ExitCode::model, who, "{}: cannot be read", file.string());
  return parse_config_file(text, file.string());
}

std::string config_file_text(const ModelConfig& model, std::string_view dtype) {
  return (model.numerics == "maxtext" ? maxtext_json(model, dtype) : hugging_face_json(model, dtype)).dump(2) + "\n";
}

}  // namespace millrace::layers
