"""This machine: missing packages, hardware, folders, and how to share the app.

The same as `workbench doctor`. Costs: a second to import torch, and a walk through the caches.
"""

import streamlit as st

from workbench.app import cache, text
from workbench.app.library import uploads

MOVING = """
| Folder | Environment variable | Default |
|---|---|---|
| Runs | `WORKBENCH_RUNS` | the folder `runs` where the app was started |
| Workbench's cache of downloads | `WORKBENCH_HOME` | `~/.cache/workbench` |
| Models from the Hugging Face hub | `HF_HOME` | `~/.cache/huggingface` |

Set a variable before you start the app. Move the folder's contents yourself:
"""
SHARING = """
The app is served on **localhost** only: nobody on the network can reach it. It has no password.
Anyone who can open the app can start jobs on this machine and remove runs. They can also read
every file that you can read, by typing its path as a model or a corpus. Share the app only with
people you trust with your account.

**For one other person**, an SSH tunnel is safest; the app needs no change:
"""
LOGIN = """
**For a group**, use Streamlit's login with your organisation's account (OIDC). Serve the app behind
a proxy with HTTPS; without HTTPS, others on the network can read the login.

1. Register the app with your identity provider. You receive a client id and a secret.
2. Install the packages for the login: `pip install "streamlit[auth]"`.
3. Write `.streamlit/secrets.toml` in the folder where you start the app, readable only by you:
"""
SECRETS = """[auth]
redirect_uri = "https://workbench.example.org/oauth2callback"
cookie_secret = "a long random string"
client_id = "from your provider"
client_secret = "from your provider"
server_metadata_url = "https://accounts.example.org/.well-known/openid-configuration"
"""
GATE = """
4. Ask for the login before any page is drawn. Add these lines to `streamlit_app.py`, after
   `st.set_page_config`:
"""
CODE = """if not st.user.is_logged_in:
    st.login()
    st.stop()
"""
SERVE = """
5. Start the app with an address that your proxy can reach, and with its public host name. With an
   address other than localhost, everyone who can reach the machine can open the app: the login is
   then the only protection. Models and corpora are then read only from uploads, runs and the
   folders of `--allow`.
"""


st.title("Settings", anchor=False)
st.markdown("Missing packages, hardware and folders of this machine, and how to share the app.")
if st.button("Check again", icon=":material/refresh:", help="After you install a package."):
    cache.machine.clear()
here = cache.machine()

st.header("Missing packages and tools", anchor=False)
if not here.missing:
    st.success("Nothing is missing.", icon=":material/check_circle:")
for missing in here.missing:
    st.text(f"{missing.what}: {missing.why}.")
    st.code(missing.command, language="bash", wrap_lines=True)

st.header("This machine", anchor=False)
device = here.device
text.facts(
    [
        ("device for models", "; ".join(device.names) or f"{device.kind.upper()} (processor)"),
        ("processor", f"{device.cores} cores, {device.threads} used by torch"),
        ("Workbench", here.workbench),
        ("Python", here.python),
        ("platform", here.platform),
        ("spaCy pipelines", ", ".join(here.pipelines) or "none"),
    ]
)
with st.expander("Package versions", type="compact"):
    text.facts(
        (p.name, f"{p.installed or 'none'} (required: {p.wanted or 'any'})") for p in here.packages
    )

st.header("Folders", anchor=False)
uploads.folders(here.folders, here.free_bytes)
with st.expander("Move a folder", type="compact"):
    st.markdown(MOVING)
    st.code("WORKBENCH_RUNS=/data/runs WORKBENCH_HOME=/data/cache workbench app", language="bash")

st.header("Light and dark theme", anchor=False)
st.markdown(
    "The app uses the light or dark theme of your browser, or the one that you choose in the menu "
    "at the right of the top bar. Figures use the theme of the app; figures in a report use the "
    "theme of the reader's browser."
)

st.header("Sharing", anchor=False)
st.markdown(SHARING)
port = st.get_option("server.port")
st.code(f"ssh -L {port}:localhost:{port} you@this-machine", language="bash")
with st.expander("Sharing with a group: login", type="compact"):
    st.markdown(LOGIN)
    st.code(SECRETS, language="toml")
    st.markdown(GATE)
    st.code(CODE, language="python")
    st.markdown(SERVE)
    st.code(
        "workbench app --headless --address 0.0.0.0 --host-name workbench.example.org "
        "--allow /data/corpora",
        language="bash",
    )
