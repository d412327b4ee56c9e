"""The Hub: who may log in, what their servers are started with, and when they are ended."""

import os
import sys

c = get_config()  # noqa: F821 - JupyterHub defines it

# One password for everybody, to try it. OAuthenticator or LDAPAuthenticator takes its place.
c.JupyterHub.authenticator_class = "shared-password"
c.SharedPasswordAuthenticator.user_password = os.environ["HUB_PASSWORD"]
c.Authenticator.allow_all = True

c.JupyterHub.bind_url = "http://:8000"
c.JupyterHub.hub_ip = "0.0.0.0"
c.JupyterHub.hub_connect_ip = "hub"

c.JupyterHub.spawner_class = "docker"
c.DockerSpawner.image = os.environ["USER_IMAGE"]
c.DockerSpawner.network_name = os.environ["USER_NETWORK"]
c.DockerSpawner.remove = True
# Notebooks, and below .local/share/jupyter the history, chats and artifacts of this user.
c.DockerSpawner.volumes = {"tk-ai-home-{username}": "/home/user"}
c.Spawner.mem_limit = "4G"
c.Spawner.http_timeout = 60

# A user's own configuration files do not count; what the arguments set holds in any case.
c.Spawner.disable_user_config = True
c.Spawner.args = [
    # Code that an agent writes is run after approval.
    "--TkAIExtensionApp.mode_cap=edit",
    # Connections choose from the default toolset and this one.
    "--TkAIExtensionApp.allowed_toolsets=claude-code",
    # Chats use the key of the environment, and nobody enters another.
    "--TkAIExtensionApp.chat_connect=False",
    # No kernel gets the token with which a server talks to the Hub.
    "--TkAIExtensionApp.kernel_env_exclude=JUPYTERHUB_API_TOKEN",
    # Nor a key of AWS for Claude on Bedrock. Remove these where notebooks read their data with it.
    "--TkAIExtensionApp.kernel_env_exclude=AWS_ACCESS_KEY_ID",
    "--TkAIExtensionApp.kernel_env_exclude=AWS_SECRET_ACCESS_KEY",
    "--TkAIExtensionApp.kernel_env_exclude=AWS_SESSION_TOKEN",
]
c.Spawner.environment = {"ANTHROPIC_API_KEY": os.environ.get("ANTHROPIC_API_KEY", "")}

# A server without activity for an hour is stopped. Servers report every five minutes.
c.JupyterHub.load_roles = [
    {
        "name": "idle-culler",
        "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
        "services": ["idle-culler"],
    }
]
c.JupyterHub.services = [
    {
        "name": "idle-culler",
        "command": [sys.executable, "-m", "jupyterhub_idle_culler", "--timeout=3600"],
    }
]
