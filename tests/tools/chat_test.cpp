#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "actors/sampler.hpp"
#include "kernels/base/check.hpp"
#include "tests/tools/run_command.hpp"
#include "tests/tools/text.hpp"
#include "tests/tools/trained_run.hpp"

// `millrace generate --chat`.
namespace millrace::tests {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// An exported model of bytes whose tokenizer has given two ids to the marks of a chat.
std::string chat_model(const TemporaryFolder& folder) {
  const auto path = folder / "chat";
  fs::copy(TrainedRun::get().exported(), path);
  auto json = Json::parse(read_file(path + "/tokenizer.json"));
  auto& vocabulary = json["model"]["vocab"];
  for (auto piece = vocabulary.begin(); piece != vocabulary.end();)
    piece = piece.value() == 0xf8 || piece.value() == 0xf9 ? vocabulary.erase(piece) : std::next(piece);
  for (const auto& [content, id] : {std::pair("<|turn|>", 0xf8), std::pair("<|end|>", 0xf9)})
    json["added_tokens"].push_back({{"id", id}, {"content", content}, {"special", true}});
  folder.write("chat/tokenizer.json", json.dump());
  folder.write("chat/chat_template.jinja",
               "{%- for m in messages %}\n"
               "    {%- if m.role == 'critic' %}{{ raise_exception('No critics here') }}{% endif %}\n"
               "    {{- '<|turn|>' + m.role + ':' + m.content + '<|end|>' }}\n"
               "{%- endfor %}\n"
               "{%- if add_generation_prompt %}{{ '<|turn|>assistant:' }}{% endif %}\n");
  return path;
}

CommandResult chat(const std::string& model, const Words& more) {
  return run_millrace(joined({"generate", "--model", model, "--threads", "1", "--chat"}, more));
}

TEST(Chat, WritesThePromptByTheTemplateAndEndsWithTheTurn) {
  const TemporaryFolder folder;
  const auto model = chat_model(folder);
  const auto said = chat(model, {"--prompt", "Hi", "--tokens", "3"});
  ASSERT_EQ(said.code, 0) << said.err;
  // <|turn|>user:Hi<|end|><|turn|>assistant:
  expect_parts(said.err, {"chat      by " + model + "/chat_template.jinja", fmt::format("prompt    {} tokens", 1 + 7 + 1 + 1 + 10)});
  const auto system = chat(model, {"--prompt", "Hi", "--system", "Be kind", "--tokens", "3"});
  expect_parts(system.err, {fmt::format("prompt    {} tokens", 20 + 1 + 14 + 1)});
  // With all tokens equally probable, the ids are known; <|end|> is one of them.
  std::uint64_t seed = 1;
  std::vector<std::int32_t> ids;
  std::size_t end = 0;
  for (; end == 0 || end >= 60; ++seed) {
    const std::vector<float> even(257, 0.0F);
    ids.clear();
    for (std::size_t i = 0; i < 60; ++i) ids.push_back(actors::sample_token(even, 1.0, seed, 20 + i));
    if (std::find(ids.begin(), ids.end(), 256) < std::find(ids.begin(), ids.end(), 0xf9)) continue;
    end = static_cast<std::size_t>(std::find(ids.begin(), ids.end(), 0xf9) - ids.begin());
  }
  const auto ended = chat(model, {"--prompt", "Hi", "--tokens", "80", "--temperature", "1e7", "--seed", std::to_string(seed - 1)});
  EXPECT_EQ(ended.code, 0) << ended.err;
  expect_parts(ended.err, {fmt::format("tokens    {} in", end + 1), "ends with the end of the turn"});
}

TEST(Chat, ReadsMessagesFromAFile) {
  const TemporaryFolder folder;
  const auto model = chat_model(folder);
  const auto list = folder.write("list.json", R"([{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"}])");
  const auto all = chat(model, {"--messages", list, "--prompt", "C", "--tokens", "2"});
  ASSERT_EQ(all.code, 0) << all.err;
  expect_parts(all.err, {fmt::format("prompt    {} tokens", (1 + 6 + 1) + (1 + 11 + 1) + (1 + 6 + 1) + 11)});
  const auto object = folder.write("object.json", R"({"messages": [{"role": "user", "content": "A"}], "tools": []})");
  EXPECT_EQ(chat(model, {"--messages", object, "--tokens", "2"}).code, 0);
  expect_failure(chat(model, {"--messages", list}), ExitCode::usage, {"the last message is of the assistant", "--prompt"});
  const auto critic = folder.write("critic.json", R"([{"role": "critic", "content": "A"}])");
  expect_failure(chat(model, {"--messages", critic}), ExitCode::data, {"chat_template.jinja:2: the template refuses: No critics here"});
  const auto system = folder.write("system.json", R"([{"role": "system", "content": "A"}, {"role": "user", "content": "A"}])");
  expect_failure(chat(model, {"--messages", system, "--system", "B"}), ExitCode::usage,
                 {"--system is given", "system.json begins with a system message"});
  expect_failure(chat(model, {"--messages", folder.write("bad.json", "[1]")}), ExitCode::data, {"bad.json: message 1 is 1"});
  expect_failure(chat(model, {"--messages", folder.write("torn.json", "[{")}), ExitCode::data, {"torn.json"});
}

TEST(Chat, SaysWhatIsMissing) {
  const auto& run = TrainedRun::get();
  expect_failure(chat(run.exported(), {"--prompt", "Hi"}), ExitCode::usage, {"has no chat template", "chat_template.jinja"});
  expect_failure(run_millrace({"generate", "--model", run.exported(), "--prompt", "a", "--system", "b"}), ExitCode::usage,
                 {"--system without --chat"});
  expect_failure(chat(run.exported(), {}), ExitCode::usage, {"neither --prompt nor --prompt-file is given", "or --messages"});
}

}  // namespace
}  // namespace millrace::tests
