// SPDX-License-Identifier: Apache-2.0
//
// skein chat: a conversation on the terminal. Lines are edited by the terminal itself; Ctrl-C ends the answer that is
// being written, Ctrl-D on an empty line ends the program. Without a terminal every line of standard input is a turn.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "commands.h"
#include "interrupt.h"
#include "load.h"
#include "skein/skein.h"

namespace skein::app {
namespace {

constexpr std::size_t kLineBytesMax = 1 << 20;
constexpr std::string_view kHelp =
    "/system TEXT   what the model is told first; without TEXT: nothing\n"
    "/reset         begins a new conversation\n"
    "/exit          leaves, as Ctrl-D does\n"
    "Ctrl-C stops an answer.\n";

// Reads lines from standard input; an interrupt gives an empty line.
class LineReader {
 public:
  explicit LineReader(Cancellation& interrupted) : interrupted_(interrupted) {}

  // Nothing at the end of input.
  std::optional<std::string> Next() {
    while (true) {
      const std::size_t end = held_.find('\n');
      if (end != std::string::npos || (ended_ && !held_.empty()) || held_.size() > kLineBytesMax) {
        std::string line = held_.substr(0, end);
        held_.erase(0, end == std::string::npos ? held_.size() : end + 1);
        return line;
      }
      if (ended_) return std::nullopt;
      char block[4096];
      const ssize_t count = ::read(STDIN_FILENO, block, sizeof(block));
      if (count < 0 && errno == EINTR) {
        if (!interrupted_.cancelled()) continue;
        interrupted_.Reset();
        held_.clear();
        return "";
      }
      if (count <= 0) {
        ended_ = true;
      } else {
        held_.append(block, static_cast<std::size_t>(count));
      }
    }
  }

 private:
  Cancellation& interrupted_;
  std::string held_;
  bool ended_ = false;
};

// A process that leads a session without a controlling terminal (in a bare container, say) takes its input's, so
// that Ctrl-C reaches it.
void TakeTerminal() {
  if (::getsid(0) == ::getpid()) static_cast<void>(::ioctl(STDIN_FILENO, TIOCSCTTY, 0));
}

class Conversation {
 public:
  Conversation(Engine& engine, const ChatOptions& options, Context& context, Cancellation& interrupted)
      : engine_(engine), options_(options), context_(context), interrupted_(interrupted), system_(options.system) {}

  // Handles a line that begins with a slash. False: leave.
  Result<bool> Obey(const std::string& line) {
    const std::size_t space = line.find(' ');
    const std::string word = line.substr(0, space);
    const std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
    if (word == "/exit" || word == "/quit") return false;
    if (word == "/help") {
      SKEIN_RETURN_IF_ERROR(Show(std::string(kHelp)));
    } else if (word == "/reset") {
      messages_.clear();
      SKEIN_RETURN_IF_ERROR(Show("(a new conversation)\n"));
    } else if (word == "/system") {
      system_ = rest;
      SKEIN_RETURN_IF_ERROR(Show(system_.empty() ? "(no system text)\n" : "(system text set)\n"));
    } else {
      SKEIN_RETURN_IF_ERROR(Show(fmt::format("(there is no {}; /help lists what there is)\n", word)));
    }
    return true;
  }

  Status Answer(const std::string& line) {
    messages_.push_back({"user", line});
    std::vector<Message> all;
    if (!system_.empty()) all.push_back({"system", system_});
    all.insert(all.end(), messages_.begin(), messages_.end());
    interrupted_.Reset();
    Status written;
    const PieceCallback on_piece = [&](const Piece& piece) {
      if (piece.text.empty()) return Next::kContinue;
      written = Show(piece.text);
      return written.ok() ? Next::kContinue : Next::kStop;
    };
    Result<skein::Answer> answer = engine_.Chat(all, options_.answer.generate, on_piece, &interrupted_);
    const bool stopped = interrupted_.cancelled();
    interrupted_.Reset();
    if (!answer.ok()) {
      messages_.pop_back();
      // A conversation that has grown too long, or that the model's template refuses, is no reason to end the program.
      const Code code = answer.status().code();
      if (code != Code::kLimit && code != Code::kInvalidArgument) return answer.status();
      return Show(fmt::format("({}, or begin anew with /reset)\n", answer.status().message()));
    }
    SKEIN_RETURN_IF_ERROR(written);
    messages_.push_back({"assistant", answer->text});
    SKEIN_RETURN_IF_ERROR(Show(stopped ? " (stopped)\n" : "\n"));
    if (context_.log().Wants(LogLevel::kInfo)) TellSummary(engine_.info(), *answer, context_);
    return OkStatus();
  }

  Status Show(std::string_view text) {
    SKEIN_RETURN_IF_ERROR(context_.out().Write(text));
    return context_.out().Flush();
  }

 private:
  Engine& engine_;
  const ChatOptions& options_;
  Context& context_;
  Cancellation& interrupted_;
  std::string system_;
  std::vector<Message> messages_;
};

}  // namespace

void ChatOptions::Describe(FieldList& fields) {
  fields.AddPositional("MODEL", &model, true, "a GGUF file, a Hugging Face folder, a name, or default");
  fields.Group("Conversation");
  fields.Add("system", "TEXT", &system, "what the model is told first");
  answer.Describe(fields);
  machine.Describe(fields);
  output.Describe(fields);
}

Status RunChat(const ChatOptions& options, Context& context) {
  const bool terminal = ::isatty(STDIN_FILENO) == 1;
  if (terminal) TakeTerminal();
  SKEIN_ASSIGN_OR_RETURN(Engine engine, LoadEngine(options.model, options.machine.Resolved(), context));
  if (!engine.info().has_chat_template) {
    return InvalidArgument(fmt::format("skein chat needs a model with a chat template, {} has none; try skein run --raw",
                                       engine.info().name),
                           "MODEL");
  }
  Cancellation interrupted;
  const InterruptGuard guard(interrupted, InterruptGuard::Mode::kAlways);
  LineReader lines(interrupted);
  Conversation conversation(engine, options, context, interrupted);
  if (terminal) SKEIN_RETURN_IF_ERROR(conversation.Show(fmt::format("{} — /help lists commands\n", engine.info().name)));
  while (true) {
    if (terminal) SKEIN_RETURN_IF_ERROR(conversation.Show("> "));
    const std::optional<std::string> line = lines.Next();
    if (!line) break;
    if (line->find_first_not_of(" \t\r") == std::string::npos) {
      if (terminal) SKEIN_RETURN_IF_ERROR(conversation.Show("\n"));
      continue;
    }
    if (line->starts_with('/')) {
      SKEIN_ASSIGN_OR_RETURN(const bool stay, conversation.Obey(*line));
      if (!stay) return OkStatus();
      continue;
    }
    SKEIN_RETURN_IF_ERROR(conversation.Answer(*line));
  }
  return terminal ? conversation.Show("\n") : OkStatus();
}

}  // namespace skein::app
