"""The scripts under examples/launch, with the launchers stubbed: every command line that they would run parses."""

from __future__ import annotations

import json
import os
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from plaudit.cli import train
from plaudit.run import vllm_serve

LAUNCH = Path(__file__).parents[2] / "examples" / "launch"
SCRIPTS = sorted(LAUNCH.glob("*.sh"))
RUN = str(LAUNCH / "large.toml")
STUB = """#!{python}
import json, os, sys
with open(os.environ["CALLS"], "a") as calls:
    calls.write(json.dumps([os.path.basename(sys.argv[0]), *sys.argv[1:]]) + "\\n")
name, rest = os.path.basename(sys.argv[0]), sys.argv[1:]
if name == "scontrol":
    print("\\n".join(f"node{{n}}" for n in range(5)))
elif name == "nvidia-smi":
    print("GPU 0\\nGPU 1")
elif name == "srun":
    while rest[0].startswith("-"):
        rest = rest[1:]
    if rest[0] == "plaudit":
        import time
        time.sleep(float(os.environ.get("SERVES_S", "5")))
        sys.exit(7)
    sys.exit(__import__("subprocess").call(rest))
"""


@pytest.fixture
def launched(tmp_path):
    """Runs a script with stubs for everything that it calls; returns its exit status and the calls."""
    stubs = tmp_path / "bin"
    stubs.mkdir()
    for name in ("srun", "scontrol", "torchrun", "accelerate", "nvidia-smi", "plaudit"):
        (stubs / name).write_text(STUB.format(python=sys.executable))
        (stubs / name).chmod(0o755)

    def run(script, *arguments, **environment):
        calls = tmp_path / "calls"
        calls.write_text("")
        path = f"{stubs}:{os.environ['PATH']}"
        slurm = {"SLURM_JOB_NODELIST": "node[0-4]", "SLURM_JOB_ID": "17", "CALLS": str(calls)}
        done = subprocess.run(
            ["bash", str(LAUNCH / script), *arguments],
            env={"PATH": path, "HOME": str(tmp_path), **slurm, **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done, [json.loads(line) for line in calls.read_text().splitlines()]

    return run


def parsed_train(arguments):
    """What `plaudit train` makes of its arguments; a wrong one raises."""
    import argparse

    parser = argparse.ArgumentParser(exit_on_error=False)
    train.add_arguments(parser)
    return parser.parse_args(arguments)


def parsed_torchrun(arguments):
    from torch.distributed.run import get_args_parser

    found = get_args_parser().parse_args(arguments)
    assert found.module
    assert found.training_script == "plaudit"
    assert found.training_script_args[0] == "train"
    return found, parsed_train(found.training_script_args[1:])


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_correct_shell_and_say_how_they_are_used(script, launched):
    subprocess.run(["bash", "-n", str(script)], check=True)
    assert os.access(script, os.X_OK)
    done, calls = launched(script.name)
    assert done.returncode != 0
    assert f"usage: {'sbatch ' if script.name == 'slurm.sh' else ''}{script.name}" in done.stderr
    assert calls == []


def test_one_node_starts_a_process_for_each_gpu(launched):
    done, calls = launched("one_node.sh", RUN, "--resume")
    assert done.returncode == 0, done.stderr
    torchrun, run = parsed_torchrun(calls[-1][1:])
    assert (torchrun.nproc_per_node, torchrun.standalone) == ("2", True)
    assert (run.run_file, run.resume) == (RUN, "latest")
    _, calls = launched("one_node.sh", RUN, GPUS="4")
    assert parsed_torchrun(calls[-1][1:])[0].nproc_per_node == "4"


def test_slurm_trains_on_four_nodes_and_serves_on_the_fifth(launched):
    done, calls = launched("slurm.sh", RUN, "--set", "config.max_steps=7", RESUME="1")
    assert done.returncode == 0, done.stderr
    (serving,) = [call for call in calls if "serve" in call and call[0] == "srun"]
    assert "--nodelist=node4" in serving
    (training,) = [call for call in calls if call[0] == "srun" and "torchrun" in call]
    assert "--nodelist=node0,node1,node2,node3" in training
    torchrun, run = parsed_torchrun(next(call for call in calls if call[0] == "torchrun")[1:])
    assert (torchrun.nnodes, torchrun.nproc_per_node, torchrun.rdzv_endpoint) == ("4", "8", "node0:29500")
    assert torchrun.node_rank == 0  # not given: the rendezvous numbers the nodes
    assert run.assignments == ["config.max_steps=7", 'config.vllm_server_host="node4"']
    assert run.resume == "latest"
    serve = parsed_serve(serving[serving.index("serve") + 1 :])
    assert (serve.run_file, serve.host, serve.tensor_parallel) == (RUN, "0.0.0.0", 8)


def test_a_server_that_fails_ends_the_slurm_job_with_its_status(launched, tmp_path):
    (tmp_path / "bin" / "torchrun").write_text("#!/bin/sh\nsleep 30\n")
    done, _ = launched("slurm.sh", RUN, SERVES_S="0")
    assert done.returncode == 7


def parsed_serve(arguments):
    import argparse

    parser = argparse.ArgumentParser(exit_on_error=False)
    vllm_serve.add_arguments(parser)
    return parser.parse_args(arguments)


@pytest.mark.parametrize(("config", "kind"), [("ddp", "MULTI_GPU"), ("fsdp2", "FSDP"), ("zero3", "DEEPSPEED")])
def test_accelerate_configurations_are_read_by_accelerate(config, kind, launched):
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.launch import launch_command_parser

    file = str(LAUNCH / f"{config}.yaml")
    assert load_config_from_file(file).distributed_type.value == kind
    done, calls = launched("accelerate.sh", file, RUN, "--set", "config.max_steps=7")
    assert done.returncode == 0, done.stderr
    found = launch_command_parser().parse_args(calls[-1][2:])
    assert (found.module, found.training_script, found.config_file) == (True, "plaudit", file)
    assert parsed_train(found.training_script_args[1:]).assignments == ["config.max_steps=7"]


def test_the_kubernetes_commands_parse_and_name_their_services():
    documents = {
        (one["kind"], one["metadata"]["name"]): one
        for one in yaml.safe_load_all((LAUNCH / "kubernetes.yaml").read_text())
    }
    job = documents["Job", "plaudit-train"]["spec"]
    torchrun, run = parsed_torchrun(container(job)["command"][1:])
    assert torchrun.nnodes == str(job["completions"])
    assert torchrun.rdzv_endpoint == "plaudit-train-0.plaudit-train:29500"
    assert run.assignments == ['config.vllm_server_host="plaudit-vllm"']
    assert int(torchrun.nproc_per_node) == container(job)["resources"]["limits"]["nvidia.com/gpu"]
    server = documents["Deployment", "plaudit-vllm"]["spec"]
    assert container(server)["command"][:3] == ["plaudit", "vllm", "serve"]
    parsed_serve(container(server)["command"][3:])
    for name in ("plaudit-train", "plaudit-vllm"):
        selected = documents["Service", name]["spec"]["selector"]
        assert selected == {"app": name}


def container(spec):
    return spec["template"]["spec"]["containers"][0]


def test_the_run_file_is_complete_and_its_configuration_holds():
    from plaudit.run.configuring import config_values
    from plaudit.run.runfile import load_run_file

    run = load_run_file(RUN, ['config.vllm_server_host="node4"'])
    values = config_values(run)
    assert values["fsdp"] is True
    assert values["fsdp_config"]["version"] == 2
    assert values["vllm_server_host"] == "node4"


def test_the_ray_script_compiles():
    py_compile.compile(str(LAUNCH / "ray_train.py"), doraise=True)


@pytest.mark.slow
def test_the_ray_script_trains(tmp_path):
    pytest.importorskip("ray.train.torch")
    run = LAUNCH.parent / "quickstart.toml"
    settings = ["config.max_steps=1", "config.use_cpu=true", f"output_dir={tmp_path / 'run'}", "eval.before=false"]
    subprocess.run([sys.executable, str(LAUNCH / "ray_train.py"), str(run), "2", *settings], check=True, timeout=500)
    assert (tmp_path / "run" / "report.md").exists()
