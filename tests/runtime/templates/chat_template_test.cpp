#include "runtime/data/templates/chat_template.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/data/tokenizers/special_tokens.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/tools/text.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* blocks =
    "{%- for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

OrderedJson hello() { return {{"messages", OrderedJson::array({{{"role", "user"}, {"content", "Hi"}}})}}; }

/// The byte vocabulary, in which the bytes 0xf8 and 0xf9, which are in no text, have given their ids to special tokens.
TokenizerFiles with_blocks(bool strips = false) {
  auto files = byte_tokenizer_files();
  auto json = OrderedJson::parse(files.files["tokenizer.json"]);
  auto& vocabulary = json["model"]["vocab"];
  for (auto piece = vocabulary.begin(); piece != vocabulary.end();)
    piece = piece.value() == 0xf8 || piece.value() == 0xf9 ? vocabulary.erase(piece) : std::next(piece);
  for (const auto& [content, id] : {std::pair("<|im_start|>", 0xf8), std::pair("<|im_end|>", 0xf9)})
    json["added_tokens"].push_back({{"id", id},
                                    {"content", content},
                                    {"single_word", false},
                                    {"lstrip", strips},
                                    {"rstrip", strips},
                                    {"normalized", false},
                                    {"special", true}});
  files.files["tokenizer.json"] = json.dump();
  return files;
}

struct Opened {
  explicit Opened(const TokenizerFiles& given) : files(given) {
    write_tokenizer_folder(folder / "tokenizer", files);
    tokenizer = open_tokenizer(folder / "tokenizer");
    special = special_tokens_of(*tokenizer, files);
  }
  std::vector<std::int32_t> encode(const std::string& text, std::size_t expected_special) const {
    std::vector<std::int32_t> ids;
    EXPECT_EQ(encode_with_special(*tokenizer, special, text, ids), expected_special);
    return ids;
  }
  tests::TemporaryFolder folder;
  TokenizerFiles files;
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<Tokenizer::SpecialToken> special;
};

TEST(ChatTemplate, IsFoundInEveryFormAndInOrder) {
  auto files = with_blocks();
  EXPECT_FALSE(ChatTemplate::find(files).has_value());
  const std::string expected = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
  auto config = OrderedJson::parse(files.files["tokenizer_config.json"]);
  config["chat_template"] = blocks;
  files.files["tokenizer_config.json"] = config.dump();
  EXPECT_EQ(ChatTemplate::find(files)->render(hello(), true), expected);
  config["chat_template"] = OrderedJson::array({{{"name", "tool_use"}, {"template", "no"}}, {{"name", "default"}, {"template", blocks}}});
  files.files["tokenizer_config.json"] = config.dump();
  EXPECT_EQ(ChatTemplate::find(files)->render(hello(), true), expected);
  EXPECT_EQ(ChatTemplate::find(files)->render(hello(), false), "<|im_start|>user\nHi<|im_end|>\n");
  config["chat_template"].erase(1);
  files.files["tokenizer_config.json"] = config.dump();
  try {
    static_cast<void>(ChatTemplate::find(files));
    ADD_FAILURE() << "a list without default was accepted";
  } catch (const Error& error) {
    tests::expect_parts(error.what(), {"byte/tokenizer_config.json: chat_template", "expected one with the name default", "tool_use"});
  }
  files.files["chat_template.json"] = OrderedJson{{"chat_template", "from json"}}.dump();
  EXPECT_EQ(ChatTemplate::find(files)->render(hello(), true), "from json");
  files.files["chat_template.jinja"] = "{{ eos_token }} {{ tools is none }} {{ bos_token is defined }}\n\n{{ 1 +}}";
  try {
    static_cast<void>(ChatTemplate::find(files));
    ADD_FAILURE() << "a broken template was accepted";
  } catch (const Error& error) {
    tests::expect_parts(error.what(), {"byte/chat_template.jinja:3: found }}, expected a value"});
  }
  files.files["chat_template.jinja"] = "{{ eos_token }} {{ tools is none }} {{ bos_token is defined }}";
  EXPECT_EQ(ChatTemplate::find(files)->render(hello(), true), "<|endoftext|> True False");
}

TEST(ChatTemplate, EncodesSpecialTokensByTheirText) {
  const Opened plain(with_blocks());
  EXPECT_EQ(plain.encode("a<|im_start|>b <|im_end|><|im_endx<|endoftext|>", 3),
            (std::vector<std::int32_t>{'a', 0xf8, 'b', ' ', 0xf9, '<', '|', 'i', 'm', '_', 'e', 'n', 'd', 'x', 256}));
  std::vector<std::int32_t> ids;
  plain.tokenizer->encode("<|im_end|>", ids);
  EXPECT_EQ(ids.size(), 10U) << "the text of a document never becomes a special token";
  const Opened stripping(with_blocks(true));
  EXPECT_EQ(stripping.encode("a \n<|im_start|> \n b", 1), (std::vector<std::int32_t>{'a', 0xf8, 'b'}));
}

TEST(ChatTemplate, TakesSpecialTokensThatOnlyTheConfigKnows) {
  auto files = byte_tokenizer_files();
  files.files["tokenizer_config.json"] = R"({"added_tokens_decoder": {"300": {"content": "<x>", "special": true, "rstrip": true},
      "301": {"content": "<tool>", "special": false}}})";
  const Opened opened(files);
  EXPECT_EQ(opened.encode("a<x> b<tool>", 1), (std::vector<std::int32_t>{'a', 300, 'b', '<', 't', 'o', 'o', 'l', '>'}));
}

TEST(ChatTemplate, KnowsWhatEndsATurn) {
  auto files = with_blocks();
  files.files["chat_template.jinja"] = blocks;
  files.files["generation_config.json"] = R"({"eos_token_id": [7, 256], "temperature": 0.6})";
  const Opened opened(files);
  const auto chat = ChatTemplate::find(files);
  EXPECT_EQ(chat->end_of_turn(), "<|im_end|>\n");
  EXPECT_EQ(end_tokens(*opened.tokenizer, files, *chat, opened.special), (std::vector<std::int32_t>{256, 7, 0xf9}));
}

TEST(ChatTemplate, RefusesWhatIsNoConversation) {
  const auto refused = [](const char* messages, const char* message) {
    try {
      check_messages(OrderedJson::parse(messages), "m.json");
      ADD_FAILURE() << messages;
    } catch (const Error& error) {
      tests::expect_parts(error.what(), {"m.json: ", message});
    }
  };
  refused("[]", "expected a list of messages");
  refused("{}", "expected a list of messages");
  refused(R"([{"role": "user", "content": "a"}, "b"])", "message 2 is \"b\", expected an object with a role");
  refused(R"([{"role": 1, "content": "a"}])", "expected an object with a role");
  refused(R"([{"role": "user"}])", "message 1 of user has no content");
}

}  // namespace
}  // namespace millrace::runtime
