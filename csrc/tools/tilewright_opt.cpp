// tilewright-opt: runs passes over graphs in text form, for tests and for reading what a pass does.
//
//   tilewright-opt --pass=fold_views,decompose graphs.tw
//
// The file may hold several graphs. Each is parsed, verified, rewritten by every pass in turn with a check after each,
// and printed.
#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <sstream>

#include "compiler/compile.h"
#include "compiler/pipeline.h"
#include "ir/graph.h"

namespace tilewright {
namespace {

std::string read_input(const std::string& path) {
  std::ostringstream text;
  if (path == "-") {
    text << std::cin.rdbuf();
  } else {
    std::ifstream in(path);
    if (!in) throw UserError("cannot read '" + path + "'");
    text << in.rdbuf();
  }
  return text.str();
}

void check(const Graph& graph, const std::string& when) {
  const std::vector<std::string> errors = verify(graph);
  if (errors.empty()) return;
  std::string message = "@" + graph.name() + " is not valid " + when + ":";
  for (const std::string& error : errors) message += "\n" + error;
  throw UserError(message);
}

const GraphPass& pass_of(const std::string& name) {
  if (const GraphPass* pass = find_pass(name)) return *pass;
  std::vector<std::string> names;
  for (const GraphPass& pass : graph_passes()) names.emplace_back(pass.name);
  const std::string nearest = nearest_name(name, names);
  throw UserError("no pass '" + name + "'" + (nearest.empty() ? "" : ", did you mean '" + nearest + "'?"));
}

int run(int argc, char** argv) {
  CLI::App app("Runs passes over graphs in text form and prints the result.");
  std::vector<std::string> pass_names, option_texts;
  std::string path, target = "sim:sm_90a";
  bool no_locations = false, list = false;
  app.add_option("--pass", pass_names, "passes, in the order in which they run")->delimiter(',');
  app.add_option("--option", option_texts, "name=value of an option of compiling");
  app.add_option("--target", target, "what to compile for")->capture_default_str();
  app.add_flag("--no-locations", no_locations, "leave locations out of the result");
  app.add_flag("--list-passes", list, "print the names of the passes in the pipeline's order");
  app.add_option("file", path, "graph text; - is standard input");
  CLI11_PARSE(app, argc, argv);
  if (list) {
    for (const GraphPass& pass : graph_passes()) std::cout << pass.name << '\n';
    return 0;
  }
  if (path.empty()) throw UserError("no file given");

  Options options;
  options.target = target;
  for (const std::string& text : option_texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) throw UserError("option '" + text + "' is not name=value");
    set_option(options, text.substr(0, equals), text.substr(equals + 1));
  }
  const Context ctx = make_context(options, "cpu");
  std::vector<const GraphPass*> passes;
  for (const std::string& name : pass_names) passes.push_back(&pass_of(name));

  bool first = true;
  for (Graph& graph : parse_graphs(read_input(path), path)) {
    check(graph, "as read");
    for (const GraphPass* pass : passes) {
      pass->run(graph, ctx);
      check(graph, std::string("after ") + pass->name);
    }
    if (!first) std::cout << '\n';
    first = false;
    std::cout << print(graph, {.locations = !no_locations});
  }
  return 0;
}

}  // namespace
}  // namespace tilewright

int main(int argc, char** argv) {
  try {
    return tilewright::run(argc, argv);
  } catch (const tilewright::UserError& error) {
    std::cerr << "tilewright-opt: " << error.what() << '\n';
  } catch (const std::exception& error) {
    std::cerr << "tilewright-opt: internal error: " << error.what() << '\n';
  }
  return 1;
}
